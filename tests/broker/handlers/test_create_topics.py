"""CreateTopics: what is created, what is refused with which code, and what the answer says."""

from typing import Any

import pytest

from logstore.config.topics import TOPIC_SETTINGS
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.client import Connection
from logstore.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.broker.running import CREATE_TOPICS, Running, batch_of, produce, running_broker


def create(
    client: Connection, *topics: CreatableTopic, version: int = 7, **fields: Any
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(list(topics), **fields)
    response: CreateTopicsResponse = client.call(CREATE_TOPICS, request, version)
    return response.topics


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: dict[str, str | None] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name,
        partitions,
        replicas,
        [CreatableReplicaAssignment(n, ids) for n, ids in (assignments or {}).items()],
        [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
    )


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(running: Running, client: Connection, version: int) -> None:
    name = f"versions-{version}"
    (result,) = create(client, topic(name, 3), version=version)
    created = running.log.topics[name]

    assert (result.name, result.error_code, result.error_message) == (name, 0, None)
    assert len(created.leaders) == 3
    assert result.topic_id == (created.topic_id if version >= 7 else bytes(16))
    assert result.num_partitions == (3 if version >= 5 else -1)
    assert result.replication_factor == (1 if version >= 5 else -1)
    assert len(result.configs or ()) == (len(TOPIC_SETTINGS) if version >= 5 else 0)
    assert produce(client, name, batch_of(b"x"), partition=2).error_code == 0


def test_each_topic_has_its_own_outcome(client: Connection) -> None:
    results = create(client, topic("fine"), topic("."), topic("also-fine"))

    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
    assert "topic name" in (results[1].error_message or "")


def test_a_topic_named_twice_is_refused(running: Running, client: Connection) -> None:
    results = create(client, topic("double"), topic("single"), topic("double", 2))

    assert {r.name: r.error_code for r in results} == {
        "double": ErrorCode.INVALID_REQUEST,
        "single": 0,
    }
    assert "double" not in running.log.topics


REFUSED = {
    "name": (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "long name": (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no partitions": (topic("t", 0), ErrorCode.INVALID_PARTITIONS),
    "negative partitions": (topic("t", -2), ErrorCode.INVALID_PARTITIONS),
    "too many partitions": (topic("t", 10_001), ErrorCode.INVALID_PARTITIONS),
    "no replicas": (topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "negative replicas": (topic("t", 1, -3), ErrorCode.INVALID_REPLICATION_FACTOR),
    "both counts and assignment": (
        topic("t", 1, -1, assignments={0: [1]}),
        ErrorCode.INVALID_REQUEST,
    ),
    "gap in assignment": (
        topic("t", -1, -1, assignments={0: [1], 2: [1]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "assigned to no broker": (
        topic("t", -1, -1, assignments={0: []}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "assigned to a stranger": (
        topic("t", -1, -1, assignments={0: [7]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "unknown config": (topic("t", configs={"retention": "1"}), ErrorCode.INVALID_CONFIG),
    "bad config": (topic("t", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
    "config out of range": (topic("t", configs={"segment.ms": "0"}), ErrorCode.INVALID_CONFIG),
    "bad choice": (topic("t", configs={"cleanup.policy": "keep"}), ErrorCode.INVALID_CONFIG),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_cannot_be_is_refused(
    running: Running, client: Connection, what: str, validate_only: bool
) -> None:
    asked, code = REFUSED[what]
    (result,) = create(client, asked, validate_only=validate_only)

    assert result.error_code == code
    assert result.error_message
    assert asked.name not in running.log.topics


def test_a_bad_config_is_named(client: Connection) -> None:
    (result,) = create(client, topic("t", configs={"retentoin.ms": "1"}))

    assert result.error_message == (
        "unknown configuration name: retentoin.ms; did you mean retention.ms?"
    )


def test_a_topic_that_exists_is_not_created_again(running: Running, client: Connection) -> None:
    known = running.create_topic("exists")
    (again,) = create(client, topic("exists"))
    (check,) = create(client, topic("exists"), validate_only=True)

    assert again.error_code == check.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert running.log.topics["exists"] is known


def test_validation_alone_creates_nothing_and_tells_all(
    running: Running, client: Connection
) -> None:
    (result,) = create(client, topic("imagined", 5), validate_only=True)

    assert (result.error_code, result.num_partitions, result.topic_id) == (0, 5, bytes(16))
    assert "imagined" not in running.log.topics


def test_minus_one_is_the_brokers_default() -> None:
    with running_broker({"num.partitions": "6"}) as running, running.connect() as client:
        (result,) = create(client, topic("default", -1, -1), version=7)
        (old,) = create(client, topic("old", -1, -1), version=3)

        assert (result.num_partitions, result.replication_factor) == (6, 1)
        assert old.error_code == 0
        assert len(running.log.topics["old"].leaders) == 6


def test_any_replication_factor_is_accepted_and_the_real_one_reported(client: Connection) -> None:
    (result,) = create(client, topic("three", 1, 3))

    assert (result.error_code, result.replication_factor) == (0, 1)


def test_an_assignment_to_this_broker_is_taken(running: Running, client: Connection) -> None:
    (result,) = create(client, topic("assigned", -1, -1, assignments={1: [1], 0: [1]}))

    assert (result.error_code, result.num_partitions) == (0, 2)
    assert len(running.log.topics["assigned"].leaders) == 2


def test_configs_are_kept_and_echoed_with_where_they_are_from() -> None:
    settings = {"log.retention.ms": "1000", "message.max.bytes": "2000000"}
    with running_broker(settings) as running, running.connect() as client:
        (null,) = create(client, topic("configured", configs={"segment.ms": None}))
        assert null.error_code == ErrorCode.INVALID_CONFIG
        (result,) = create(client, topic("configured", configs={"retention.bytes": "5"}))
        answer = {one.name: (one.value, one.config_source) for one in result.configs or ()}

        assert running.log.topics["configured"].configs == {"retention.bytes": "5"}
        assert answer["retention.bytes"] == ("5", 1)
        assert answer["retention.ms"] == ("1000", 4)
        assert answer["max.message.bytes"] == ("2000000", 4)
        assert answer["segment.ms"] == ("604800000", 5)


def test_a_creation_that_takes_long_is_reported_and_goes_on(
    running: Running, client: Connection
) -> None:
    (result,) = create(client, topic("later"), timeout_ms=0)
    running.wait_until(lambda: "later" in running.log.topics)

    assert result.error_code in (0, ErrorCode.REQUEST_TIMED_OUT)


def test_many_clients_create_the_same_topic_once(running: Running) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def create_one(_: int) -> int:
        with running.connect() as client:
            return create(client, topic("raced"))[0].error_code

    with ThreadPoolExecutor(6) as threads:
        codes = sorted(threads.map(create_one, range(6)))

    assert codes == [0, *[ErrorCode.TOPIC_ALREADY_EXISTS] * 5]
