"""librdkafka's AdminClient against two brokers: every request it has that we serve."""

from collections.abc import Iterator

import pytest
from confluent_kafka import (
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from tests.clients.two_brokers import known_everywhere, two_brokers, until

pytestmark = pytest.mark.clients

DEADLINE_S = 60.0
AT_THE_START = "logstore.segment.bytes"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with two_brokers(tmp_path_factory.mktemp("log")) as address:
        yield address


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create(
    bootstrap: str, admin: AdminClient, name: str, *assigned: list[int], **configs: str
) -> None:
    config = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, len(assigned), replica_assignment=list(assigned), config=config)
    admin.create_topics([topic])[name].result(DEADLINE_S)
    known_everywhere(bootstrap, name, len(assigned))


def resource(name: str, *entries: ConfigEntry) -> ConfigResource:
    return ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=list(entries))


def fails(code: int, future: object) -> None:
    with pytest.raises(KafkaException) as failed:
        future.result(DEADLINE_S)  # type: ignore[attr-defined]
    assert failed.value.args[0].code() == code


def test_the_cluster_is_described(admin: AdminClient) -> None:
    reported = admin.describe_cluster(include_authorized_operations=True).result(DEADLINE_S)

    assert [(node.id, node.rack) for node in sorted(reported.nodes, key=lambda node: node.id)] == [
        (1, "a"),
        (2, "b"),
    ]
    assert len(reported.cluster_id) == 22
    assert reported.controller.id in (1, 2)
    assert reported.authorized_operations


def test_a_topic_is_created_described_and_grows(bootstrap: str, admin: AdminClient) -> None:
    create(bootstrap, admin, "grows", [1, 2], [2, 1])
    admin.create_partitions([NewPartitions("grows", 4)])["grows"].result(DEADLINE_S)
    fails(
        KafkaError.INVALID_PARTITIONS,
        admin.create_partitions([NewPartitions("grows", 3)])["grows"],
    )

    known_everywhere(bootstrap, "grows", 4)

    def described() -> list[object]:
        asked = admin.describe_topics(TopicCollection(["grows"]))["grows"]
        found: list[object] = asked.result(DEADLINE_S).partitions
        return found

    assert len(described()) == 4
    assert all(len(one.replicas) == len(one.isr) == 2 for one in described())  # type: ignore[attr-defined]
    assert {one.leader.id for one in described()} == {1, 2}  # type: ignore[attr-defined]


def test_a_replica_on_no_broker_is_refused(admin: AdminClient) -> None:
    topic = NewTopic("unhosted", 1, replica_assignment=[[7]])

    fails(KafkaError.INVALID_REPLICA_ASSIGNMENT, admin.create_topics([topic])["unhosted"])


def test_configs_are_changed_and_described(bootstrap: str, admin: AdminClient) -> None:
    create(bootstrap, admin, "configured", [2], retention_ms="5000", segment_ms="7")
    wanted = resource(
        "configured",
        ConfigEntry("retention.ms", "6000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("segment.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    )
    for future in admin.incremental_alter_configs([wanted]).values():
        future.result(DEADLINE_S)

    def described() -> dict[str, ConfigEntry]:
        (future,) = admin.describe_configs([resource("configured")]).values()
        found: dict[str, ConfigEntry] = future.result(DEADLINE_S)
        return found

    until(lambda: described()["retention.ms"].value == "6000")
    shown = described()
    assert shown["segment.ms"].is_default
    assert shown["cleanup.policy"].value == "delete,compact"
    assert list(shown["retention.ms"].synonyms) == ["retention.ms", "log.retention.ms"]


@pytest.mark.parametrize("broker", ["1", "2"])
def test_each_broker_describes_itself(admin: AdminClient, broker: str) -> None:
    (future,) = admin.describe_configs([ConfigResource("broker", broker)]).values()
    shown = future.result(DEADLINE_S)

    assert (shown["num.partitions"].value, shown["num.partitions"].is_read_only) == ("1", False)
    assert shown[AT_THE_START].is_read_only


def test_what_a_broker_takes_at_its_start_alone_cannot_be_changed(admin: AdminClient) -> None:
    entry = ConfigEntry(AT_THE_START, "2097152", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource("broker", "1", incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([wanted]).values()

    fails(KafkaError.INVALID_CONFIG, future)


def test_there_are_no_acls(admin: AdminClient) -> None:
    of_a_topic = (ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:alice", "*")
    rights = (*of_a_topic, AclOperation.READ, AclPermissionType.ALLOW)
    asked, made = AclBindingFilter(*rights), AclBinding(*rights)

    # librdkafka leaves the error out, of Apache Kafka's answer, too.
    assert admin.describe_acls(asked).result(DEADLINE_S) == []
    fails(KafkaError.SECURITY_DISABLED, admin.create_acls([made])[made])
    fails(KafkaError.SECURITY_DISABLED, admin.delete_acls([asked])[asked])


def test_records_are_deleted_by_their_leaders(bootstrap: str, admin: AdminClient) -> None:
    create(bootstrap, admin, "records", [1, 2], [2, 1])
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for partition in (0, 1):
        for _ in range(10):
            producer.produce("records", b"x", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    wanted = [TopicPartition("records", 0, 4), TopicPartition("records", 1, -1)]
    futures = admin.delete_records(wanted)
    lows = sorted(future.result(DEADLINE_S).low_watermark for future in futures.values())

    assert lows == [4, 10]
    too_far = TopicPartition("records", 0, 11)
    fails(KafkaError.OFFSET_OUT_OF_RANGE, admin.delete_records([too_far])[too_far])


def test_leaders_are_elected(bootstrap: str, admin: AdminClient) -> None:
    create(bootstrap, admin, "elected", [1, 2])
    partition = TopicPartition("elected", 0)
    reported = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(DEADLINE_S)

    assert reported[partition].code() == KafkaError.ELECTION_NOT_NEEDED
    unknown = TopicPartition("elected", 9)
    reported = admin.elect_leaders(ElectionType.PREFERRED, [unknown]).result(DEADLINE_S)
    assert reported[unknown].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
