"""Requests of `logstore topics` to brokers; a refusal becomes `Invalid`."""

import base64
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logstore.cli.broker_access import PLAIN_ACCESS, BrokerAccess
from logstore.cli.command import BootstrapAddress
from logstore.errors import Invalid, Retryable
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from logstore.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_TOPICS = 2, 3, 19, 20
EARLIEST, LATEST = -2, -1
BROKER_DEFAULT = -1
CONSUMER = -1
"""Replica id of clients."""

NOT_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""Errors of a broker about a partition that is being created or taken over."""

CONNECT_TIMEOUT_S = 5.0
CALL_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """`topic_id` as Kafka's tools show it."""

    name: str
    topic_id: str
    partition_count: int


@dataclass(frozen=True, slots=True)
class DescribedPartition:
    """Offsets [start, end); None where the partition has no leader, or one that is about to be.

    `replicas` are broker ids, the preferred leader first; `in_sync` those that are alive.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    name: str
    topic_id: str
    partitions: Sequence[DescribedPartition]


def connect(brokers: Sequence[BootstrapAddress], access: BrokerAccess = PLAIN_ACCESS) -> Connection:
    """To the first of `brokers` that answers. Raises `Retryable` if none does."""
    failures = []
    for broker in brokers:
        try:
            return access.open(broker.host, broker.port, CONNECT_TIMEOUT_S)
        except Retryable as failure:
            failures.append(str(failure))
    raise Retryable(f"{'; '.join(failures)}; is a broker running there? see --bootstrap")


def list_topics(connection: Connection) -> list[ListedTopic]:
    response = connection.call(METADATA, MetadataRequest(None, False))
    lines = [
        ListedTopic(topic.name, _shown(topic.topic_id), len(topic.partitions))
        for topic in response.topics
    ]
    return sorted(lines, key=lambda line: line.name)


def create_topic(
    connection: Connection,
    name: str,
    partitions: int | None,
    replicas: int | None,
    configs: Mapping[str, str],
) -> ListedTopic:
    """`partitions` or `replicas` None: as many as the broker makes by default."""
    count = BROKER_DEFAULT if partitions is None else partitions
    factor = BROKER_DEFAULT if replicas is None else replicas
    wanted = [CreatableTopicConfig(key, value) for key, value in configs.items()]
    topic = CreatableTopic(name, count, factor, None, wanted)
    response = connection.call(CREATE_TOPICS, CreateTopicsRequest([topic], CALL_TIMEOUT_MS))
    created = response.topics[0]
    check(created.error_code, created.error_message, f"create topic {name}")
    listed = look_up(connection, name)[1]
    return ListedTopic(name, _shown(listed.topic_id), len(listed.partitions))


def delete_topic(connection: Connection, name: str) -> None:
    request = DeleteTopicsRequest([name], [DeleteTopicState(name)], CALL_TIMEOUT_MS)
    result = connection.call(DELETE_TOPICS, request).responses[0]
    check(result.error_code, result.error_message, f"delete topic {name}")


def describe_topic(
    connection: Connection, name: str, access: BrokerAccess = PLAIN_ACCESS
) -> DescribedTopic:
    """Offsets come from each partition's leader, at its advertised address."""
    brokers, topic = look_up(connection, name)
    by_leader: dict[int, list[int]] = defaultdict(list)
    for partition in topic.partitions:
        by_leader[partition.leader_id].append(partition.partition_index)
    offsets: dict[int, tuple[int, int]] = {}
    for leader, partitions in by_leader.items():
        if leader in brokers:
            with connect([brokers[leader]], access) as peer:
                starts = _offsets(peer, name, partitions, EARLIEST)
                ends = _offsets(peer, name, partitions, LATEST)
            known = starts.keys() & ends.keys()
            offsets.update({number: (starts[number], ends[number]) for number in known})
    lines = [
        DescribedPartition(
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            p.replica_nodes,
            p.isr_nodes,
            *offsets.get(p.partition_index, (None, None)),
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    ]
    return DescribedTopic(name, _shown(topic.topic_id), lines)


def look_up(connection: Connection, name: str) -> tuple[dict[int, BootstrapAddress], Any]:
    """Addresses of all brokers by id, and what Metadata says of one topic."""
    request = MetadataRequest([MetadataRequestTopic(name=name)], False)
    response = connection.call(METADATA, request)
    topic = response.topics[0]
    check(topic.error_code, None, f"look up topic {name}")
    return {b.node_id: BootstrapAddress(b.host, b.port) for b in response.brokers}, topic


def _offsets(
    connection: Connection, name: str, partitions: Sequence[int], timestamp: int
) -> dict[int, int]:
    asked = [ListOffsetsPartition(number, -1, timestamp) for number in partitions]
    request = ListOffsetsRequest(CONSUMER, 0, [ListOffsetsTopic(name, asked)], CALL_TIMEOUT_MS)
    offsets = {}
    for partition in connection.call(LIST_OFFSETS, request).topics[0].partitions:
        number = partition.partition_index
        if partition.error_code in NOT_YET:
            continue
        check(partition.error_code, None, f"list offsets of {name} partition={number}")
        offsets[number] = partition.offset
    return offsets


def _shown(topic_id: bytes) -> str:
    """22 characters of Base64, Kafka's `Uuid.toString`."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def check(code: int, message: str | None, doing: str) -> None:
    """Raises `Retryable` or `Invalid`, with Kafka's name for the error, unless there is none."""
    if code == ErrorCode.NONE:
        return
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else None
    text = f"cannot {doing}: error={known.name if known else code}"
    if message:
        text = f"{text}: {message}"
    if known is not None and known.retriable and known is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Retryable(f"{text}; try again")
    raise Invalid(text)
