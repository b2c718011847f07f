"""Which right each request needs, and what a client without it gets: `KafkaApis` of Apache Kafka.

One `Asked` a way in which a handler asks. A handler that asks about nothing is in `ASKS_NOTHING`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from logstore.security.acls import CLUSTER, Operation, Resource, ResourceKind
from logstore.wire.errors import ErrorCode
from logstore.wire.read_feed import READ_FEED_KEY, ReadFeedRequest
from tests.broker.running import batch_of
from tools.full_wire import APIS

TOPIC = Resource(ResourceKind.TOPIC, "asked-topic")
GROUP = Resource(ResourceKind.GROUP, "asked-group")
TRANSACTION = Resource(ResourceKind.TRANSACTIONAL_ID, "asked-transaction")

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
REFUSALS = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION}

ASKS_NOTHING = {
    17: "SaslHandshake: a login comes before rights",
    18: "ApiVersions: clients ask it before they log in",
    36: "SaslAuthenticate: a login comes before rights",
    60: "DescribeCluster: in Kafka, too; operations on the cluster are hidden",
    66: "ListTransactions: there are none",
}

Id = bytes
"""Of `TOPIC`."""


@dataclass(frozen=True)
class Asked:
    """A request and what it needs; a client without it gets `refusal`, or sees nothing."""

    key: int
    what: str
    version: int
    request: Callable[[Id], Any]
    needs: Operation
    on: Resource
    refusal: ErrorCode | None
    beside: Sequence[tuple[Operation, Resource]] = ()
    """Further rights that are needed, and that the client has."""
    seen: Callable[[Any], Any] | None = None
    """What an answer without refusal shows: empty to a client without the right."""

    def __str__(self) -> str:
        return f"{self.key} {self.what}".replace(" ", "-")


def message(key: int, *fields: Any, **named: Any) -> Any:
    """Returns the request of an API."""
    api = APIS[key]
    return getattr(import_module(f"{api.package}.{api.module}"), f"{api.name}Request")(
        *fields, **named
    )


def part(key: int, kind: str, *fields: Any, **named: Any) -> Any:
    api = APIS[key]
    return getattr(import_module(f"{api.package}.{api.module}"), kind)(*fields, **named)


def _produce(transaction: str | None = None) -> Any:
    data = part(0, "PartitionProduceData", 0, batch_of(b"x"))
    return message(
        0, transaction, -1, 20_000, [part(0, "TopicProduceData", TOPIC.name, partition_data=[data])]
    )


def _fetch(**topic: Any) -> Any:
    wanted = part(1, "FetchPartition", 0, partition_max_bytes=1000)
    return message(1, -1, 0, 1, 1000, topics=[part(1, "FetchTopic", partitions=[wanted], **topic)])


def _commit() -> Any:
    partition = part(8, "OffsetCommitRequestPartition", 0, 5)
    topic = part(8, "OffsetCommitRequestTopic", TOPIC.name, partitions=[partition])
    return message(8, GROUP.name, topics=[topic])


def _offsets(topics: Any) -> Any:
    return message(9, groups=[part(9, "OffsetFetchRequestGroup", GROUP.name, topics=topics)])


def _configs(kind: int, name: str) -> Any:
    return message(32, [part(32, "DescribeConfigsResource", kind, name, None)])


def _alter(kind: int, name: str) -> Any:
    change = part(33, "AlterableConfig", "max.connections" if kind == 4 else "retention.ms", "9")
    return message(33, [part(33, "AlterConfigsResource", kind, name, [change])], True)


def _alter_one(kind: int, name: str) -> Any:
    change = part(44, "AlterableConfig", "max.connections" if kind == 4 else "retention.ms", 0, "9")
    return message(44, [part(44, "AlterConfigsResource", kind, name, [change])], True)


def _join() -> Any:
    protocol = part(11, "JoinGroupRequestProtocol", "range", b"")
    return message(11, GROUP.name, 6_000, 6_000, "", None, "consumer", [protocol])


READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
CREATE, DELETE, ALTER = Operation.CREATE, Operation.DELETE, Operation.ALTER
SEE_CONFIGS, SET_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
ACTS_AS_BROKER = Operation.CLUSTER_ACTION

_BROKER = "1"

TABLE = [
    Asked(0, "produce", 9, lambda _: _produce(), WRITE, TOPIC, NO_TOPIC),
    Asked(
        0,
        "produce of a transaction",
        9,
        lambda _: _produce(TRANSACTION.name),
        WRITE,
        TRANSACTION,
        NO_TRANSACTION,
        [(WRITE, TOPIC)],
    ),
    Asked(1, "fetch", 12, lambda _: _fetch(topic=TOPIC.name), READ, TOPIC, NO_TOPIC),
    Asked(1, "fetch by id", 13, lambda one: _fetch(topic_id=one), READ, TOPIC, NO_TOPIC),
    Asked(
        2,
        "offsets",
        6,
        lambda _: message(
            2, -1, 0, [part(2, "ListOffsetsTopic", TOPIC.name, [part(2, "ListOffsetsPartition")])]
        ),
        DESCRIBE,
        TOPIC,
        NO_TOPIC,
    ),
    Asked(
        3,
        "metadata by name",
        12,
        lambda _: message(3, [part(3, "MetadataRequestTopic", name=TOPIC.name)], False),
        DESCRIBE,
        TOPIC,
        NO_TOPIC,
    ),
    Asked(
        3,
        "metadata by id",
        12,
        lambda one: message(3, [part(3, "MetadataRequestTopic", one, None)], False),
        DESCRIBE,
        TOPIC,
        NO_TOPIC,
    ),
    Asked(
        3,
        "metadata of all",
        12,
        lambda _: message(3, None, False),
        DESCRIBE,
        TOPIC,
        None,
        seen=lambda response: response.topics,
    ),
    Asked(
        3,
        "operations on the cluster",
        10,
        lambda _: message(3, [], False, True),
        DESCRIBE,
        CLUSTER,
        None,
        [(CREATE, CLUSTER)],
        seen=lambda response: response.cluster_authorized_operations,
    ),
    Asked(8, "commit by group", 8, lambda _: _commit(), READ, GROUP, NO_GROUP, [(READ, TOPIC)]),
    Asked(8, "commit by topic", 8, lambda _: _commit(), READ, TOPIC, NO_TOPIC, [(READ, GROUP)]),
    Asked(9, "group's offsets", 8, lambda _: _offsets(None), DESCRIBE, GROUP, NO_GROUP),
    Asked(
        9,
        "group's offsets of a topic",
        8,
        lambda _: _offsets(
            [part(9, "OffsetFetchRequestTopics", TOPIC.name, partition_indexes=[0])]
        ),
        DESCRIBE,
        TOPIC,
        NO_TOPIC,
        [(DESCRIBE, GROUP)],
    ),
    Asked(
        10,
        "coordinator of a group",
        4,
        lambda _: message(10, key_type=0, coordinator_keys=[GROUP.name]),
        DESCRIBE,
        GROUP,
        NO_GROUP,
    ),
    Asked(
        10,
        "coordinator of a transaction",
        4,
        lambda _: message(10, key_type=1, coordinator_keys=[TRANSACTION.name]),
        DESCRIBE,
        TRANSACTION,
        NO_TRANSACTION,
    ),
    Asked(11, "join", 5, lambda _: _join(), READ, GROUP, NO_GROUP),
    Asked(12, "heartbeat", 3, lambda _: message(12, GROUP.name, 1, "m"), READ, GROUP, NO_GROUP),
    Asked(
        13,
        "leave",
        5,
        lambda _: message(13, GROUP.name, members=[part(13, "MemberIdentity", "m")]),
        READ,
        GROUP,
        NO_GROUP,
    ),
    Asked(14, "sync", 3, lambda _: message(14, GROUP.name, 1, "m"), READ, GROUP, NO_GROUP),
    Asked(15, "group", 5, lambda _: message(15, [GROUP.name]), DESCRIBE, GROUP, NO_GROUP),
    Asked(
        16,
        "groups",
        4,
        lambda _: message(16),
        DESCRIBE,
        GROUP,
        None,
        seen=lambda response: response.groups,
    ),
    Asked(
        16,
        "groups by the cluster",
        4,
        lambda _: message(16),
        DESCRIBE,
        CLUSTER,
        None,
        seen=lambda response: response.groups,
    ),
    *(
        Asked(
            19,
            f"creation by {one.kind.name}",
            7,
            lambda _: message(19, [part(19, "CreatableTopic", "new", 1, 1)], 9_000, True),
            CREATE,
            one,
            NO_TOPIC,
        )
        for one in (CLUSTER, Resource(ResourceKind.TOPIC, "new"))
    ),
    Asked(
        20,
        "deletion by id",
        6,
        lambda one: message(20, [], [part(20, "DeleteTopicState", None, one)], 9_000),
        DELETE,
        TOPIC,
        NO_TOPIC,
        [(DESCRIBE, TOPIC)],
    ),
    Asked(
        21,
        "records",
        2,
        lambda _: message(
            21,
            [
                part(
                    21, "DeleteRecordsTopic", TOPIC.name, [part(21, "DeleteRecordsPartition", 0, 0)]
                )
            ],
            9_000,
        ),
        DELETE,
        TOPIC,
        NO_TOPIC,
    ),
    Asked(22, "id", 4, lambda _: message(22, None, 9_000), WRITE, TOPIC, NO_CLUSTER),
    Asked(
        22,
        "id by the cluster",
        4,
        lambda _: message(22, None, 9_000),
        Operation.IDEMPOTENT_WRITE,
        CLUSTER,
        NO_CLUSTER,
    ),
    Asked(
        22,
        "id of a transaction",
        4,
        lambda _: message(22, TRANSACTION.name, 9_000),
        WRITE,
        TRANSACTION,
        NO_TRANSACTION,
    ),
    *(
        Asked(
            23,
            f"epoch by {one.kind.name}",
            4,
            lambda _: message(
                23,
                topics=[
                    part(
                        23,
                        "OffsetForLeaderTopic",
                        TOPIC.name,
                        [part(23, "OffsetForLeaderPartition")],
                    )
                ],
            ),
            operation,
            one,
            NO_TOPIC,
        )
        for operation, one in ((DESCRIBE, TOPIC), (ACTS_AS_BROKER, CLUSTER))
    ),
    Asked(
        29,
        "ACLs",
        3,
        lambda _: message(29, 1, None, 1, None, None, 1, 1),
        DESCRIBE,
        CLUSTER,
        NO_CLUSTER,
    ),
    Asked(
        30,
        "new ACL",
        3,
        lambda _: message(30, [part(30, "AclCreation", 2, "other", 3, "User:x", "*", 3, 3)]),
        ALTER,
        CLUSTER,
        NO_CLUSTER,
    ),
    Asked(
        31,
        "deleted ACL",
        3,
        lambda _: message(31, [part(31, "DeleteAclsFilter", 2, "other", 3, "User:x", None, 3, 3)]),
        ALTER,
        CLUSTER,
        NO_CLUSTER,
    ),
    Asked(32, "topic", 4, lambda _: _configs(2, TOPIC.name), SEE_CONFIGS, TOPIC, NO_TOPIC),
    Asked(32, "broker", 4, lambda _: _configs(4, _BROKER), SEE_CONFIGS, CLUSTER, NO_CLUSTER),
    Asked(33, "topic", 2, lambda _: _alter(2, TOPIC.name), SET_CONFIGS, TOPIC, NO_TOPIC),
    Asked(33, "broker", 2, lambda _: _alter(4, _BROKER), SET_CONFIGS, CLUSTER, NO_CLUSTER),
    Asked(
        34,
        "log directory",
        2,
        lambda _: message(
            34,
            [
                part(
                    34,
                    "AlterReplicaLogDir",
                    "/x",
                    [part(34, "AlterReplicaLogDirTopic", TOPIC.name, [0])],
                )
            ],
        ),
        ALTER,
        CLUSTER,
        NO_CLUSTER,
    ),
    Asked(35, "log directories", 4, lambda _: message(35, None), DESCRIBE, CLUSTER, NO_CLUSTER),
    Asked(
        37,
        "growth",
        3,
        lambda _: message(37, [part(37, "CreatePartitionsTopic", TOPIC.name, 9)], 9_000, True),
        ALTER,
        TOPIC,
        NO_TOPIC,
    ),
    Asked(42, "group", 2, lambda _: message(42, [GROUP.name]), DELETE, GROUP, NO_GROUP),
    Asked(43, "leaders", 2, lambda _: message(43, 0, [], 9_000), ALTER, CLUSTER, NO_CLUSTER),
    Asked(44, "topic", 1, lambda _: _alter_one(2, TOPIC.name), SET_CONFIGS, TOPIC, NO_TOPIC),
    Asked(44, "broker", 1, lambda _: _alter_one(4, _BROKER), SET_CONFIGS, CLUSTER, NO_CLUSTER),
    Asked(45, "moves", 0, lambda _: message(45, topics=[]), ALTER, CLUSTER, NO_CLUSTER),
    Asked(46, "moves", 0, lambda _: message(46, 9_000, None), DESCRIBE, CLUSTER, NO_CLUSTER),
    Asked(
        47,
        "offsets by group",
        0,
        lambda _: message(47, GROUP.name, [part(47, "OffsetDeleteRequestTopic", TOPIC.name)]),
        DELETE,
        GROUP,
        NO_GROUP,
        [(READ, TOPIC)],
    ),
    Asked(
        47,
        "offsets by topic",
        0,
        lambda _: message(
            47,
            GROUP.name,
            [
                part(
                    47,
                    "OffsetDeleteRequestTopic",
                    TOPIC.name,
                    [part(47, "OffsetDeleteRequestPartition", 0)],
                )
            ],
        ),
        READ,
        TOPIC,
        NO_TOPIC,
        [(DELETE, GROUP)],
    ),
    Asked(48, "quotas", 1, lambda _: message(48, [], False), SEE_CONFIGS, CLUSTER, NO_CLUSTER),
    Asked(
        49,
        "quotas",
        1,
        lambda _: message(
            49,
            [
                part(
                    49,
                    "EntryData",
                    [part(49, "EntityData", "user", "x")],
                    [part(49, "OpData", "producer_byte_rate", 9.0)],
                )
            ],
            True,
        ),
        SET_CONFIGS,
        CLUSTER,
        NO_CLUSTER,
    ),
    Asked(50, "credentials", 0, lambda _: message(50, None), DESCRIBE, CLUSTER, NO_CLUSTER),
    Asked(
        55,
        "quorum",
        1,
        lambda _: message(
            55, [part(55, "TopicData", "__cluster_metadata", [part(55, "PartitionData", 0)])]
        ),
        DESCRIBE,
        CLUSTER,
        NO_CLUSTER,
    ),
    Asked(57, "features", 1, lambda _: message(57, 9_000, [], True), ALTER, CLUSTER, NO_CLUSTER),
    Asked(
        61,
        "producers",
        0,
        lambda _: message(61, [part(61, "TopicRequest", TOPIC.name, [0])]),
        READ,
        TOPIC,
        NO_TOPIC,
    ),
    Asked(64, "broker", 0, lambda _: message(64, 77), ALTER, CLUSTER, NO_CLUSTER),
    Asked(74, "resources", 1, lambda _: message(74, []), SEE_CONFIGS, CLUSTER, NO_CLUSTER),
    Asked(
        75,
        "partitions by name",
        0,
        lambda _: message(75, [part(75, "TopicRequest", TOPIC.name)]),
        DESCRIBE,
        TOPIC,
        NO_TOPIC,
    ),
    Asked(
        75,
        "partitions of all",
        0,
        lambda _: message(75, []),
        DESCRIBE,
        TOPIC,
        None,
        seen=lambda response: response.topics,
    ),
    Asked(
        READ_FEED_KEY, "feed", 0, lambda _: ReadFeedRequest(1), ACTS_AS_BROKER, CLUSTER, NO_CLUSTER
    ),
]
