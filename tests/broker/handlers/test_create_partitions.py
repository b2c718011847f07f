"""CreatePartitions: topics grow and never shrink; what is asked wrongly is refused by name."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.network.authorizer import Operation
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running, batch_of, produce

CREATE_PARTITIONS = 37


def grow(
    client: Connection,
    *topics: CreatePartitionsTopic,
    version: int = 3,
    timeout_ms: int = 20_000,
    validate_only: bool = False,
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(list(topics), timeout_ms, validate_only)
    response: CreatePartitionsResponse = client.call(CREATE_PARTITIONS, request, version)
    return response.results


def topic(name: str, count: int, *assigned: list[int]) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(brokers) for brokers in assigned]
    return CreatePartitionsTopic(name, count, assignments or None)


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions_that_can_be_written_at_once(
    running: Running, client: Connection, version: int
) -> None:
    name = f"versions-{version}"
    created = running.create_topic(name, 2)
    assert produce(client, name, batch_of(b"x"), partition=1).error_code == 0
    (result,) = grow(client, topic(name, 5), version=version)

    assert (result.name, result.error_code, result.error_message) == (name, 0, None)
    assert created.partition_count == 5
    for partition in range(5):
        written = produce(client, name, batch_of(b"x"), partition=partition)
        assert (written.error_code, written.base_offset) == (0, int(partition == 1))


def test_each_topic_has_its_own_outcome(running: Running, client: Connection) -> None:
    for name in ("grows", "twice", "same"):
        running.create_topic(name, 2)
    results = grow(
        client,
        topic("grows", 3),
        topic("same", 2),
        topic("twice", 3),
        topic("nowhere", 3),
        topic("twice", 4),
    )

    assert {one.name: one.error_code for one in results} == {
        "grows": 0,
        "same": ErrorCode.INVALID_PARTITIONS,
        "twice": ErrorCode.INVALID_REQUEST,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("count", "assigned", "code"),
    [
        (1, [], ErrorCode.INVALID_PARTITIONS),
        (2, [], ErrorCode.INVALID_PARTITIONS),
        (-1, [], ErrorCode.INVALID_PARTITIONS),
        (10_001, [], ErrorCode.INVALID_PARTITIONS),
        (3, [[1], [1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_is_refused(
    running: Running,
    client: Connection,
    count: int,
    assigned: list[list[int]],
    code: ErrorCode,
    validate_only: bool,
) -> None:
    known = running.log.topics.get("stays") or running.create_topic("stays", 2)
    (result,) = grow(client, topic("stays", count, *assigned), validate_only=validate_only)

    assert result.error_code == code
    assert result.error_message
    assert known.partition_count == 2


def test_validation_alone_creates_nothing(running: Running, client: Connection) -> None:
    known = running.create_topic("checked")
    (result,) = grow(client, topic("checked", 4), validate_only=True)

    assert (result.error_code, known.partition_count) == (0, 1)


def test_an_assignment_to_a_live_broker_is_taken(running: Running, client: Connection) -> None:
    known = running.create_topic("assigned")
    (result,) = grow(client, topic("assigned", 3, [1], [1]))

    assert (result.error_code, known.partition_count) == (0, 3)


def test_growth_that_takes_long_is_reported_and_goes_on(
    running: Running, client: Connection
) -> None:
    known = running.create_topic("later")
    (result,) = grow(client, topic("later", 2), timeout_ms=0)
    running.wait_until(lambda: known.partition_count == 2)

    assert result.error_code in (0, ErrorCode.REQUEST_TIMED_OUT)


def test_growth_needs_alter(running: Running, client: Connection) -> None:
    known = running.create_topic("guarded")
    deny(running, Operation.ALTER)
    results = grow(client, topic("guarded", 2), topic("nowhere", 2))

    assert [one.error_code for one in results] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert known.partition_count == 1


def test_many_clients_that_want_the_same_grow_a_topic_once(running: Running) -> None:
    known = running.create_topic("raced", 2)

    def grow_one(_: int) -> int:
        with running.connect() as client:
            return grow(client, topic("raced", 5))[0].error_code

    with ThreadPoolExecutor(6) as threads:
        codes = set(threads.map(grow_one, range(6)))

    assert known.partition_count == 5
    assert codes <= {0, ErrorCode.INVALID_PARTITIONS}
    assert 0 in codes


@pytest.mark.parametrize("validate_only", [False, True])
def test_internal_topics_are_grown_by_no_client(
    running: Running, client: Connection, validate_only: bool
) -> None:
    created = running.create_topic("__consumer_offsets", 2)
    (result,) = grow(client, topic("__consumer_offsets", 3), validate_only=validate_only)
    running.delete_topic("__consumer_offsets")

    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert created.partition_count == 2
