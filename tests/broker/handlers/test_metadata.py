"""Metadata: which topics are shown to whom, and how one that is asked for comes into being."""

import pytest

from broker.answers.creation import AUTO_CREATED_AT_ONCE_MAX
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.framing.client import Connection
from logstore.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.broker.held_turns import HeldTurns
from tests.broker.running import METADATA, Running, Shared, running_broker
from tools.full_wire import APIS

NOT_ASKED = -(2**31)
ALL_TOPIC_OPERATIONS = sum(1 << n for n in (3, 4, 5, 6, 7, 8, 10, 11))


def ask(client: Connection, *names: str, version: int = 13, auto: bool = False) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    response: MetadataResponse = client.call(METADATA, MetadataRequest(topics, auto), version)
    return response


def ask_all(client: Connection, version: int) -> list[str]:
    response: MetadataResponse = client.call(METADATA, MetadataRequest(None), version)
    return sorted(topic.name or "" for topic in response.topics)


@pytest.mark.parametrize("version", range(14))
def test_every_version_describes_broker_and_topics(
    running: Running, client: Connection, version: int
) -> None:
    name = f"versions-{version}"
    topic = running.create_topic(name, 3)
    response = ask(client, name, version=version)
    (broker,) = response.brokers
    (answer,) = response.topics

    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", running.listener.port)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (running.broker.cluster_id if version >= 2 else None)
    assert (answer.error_code, answer.name, answer.is_internal) == (0, name, False)
    assert answer.topic_id == (topic.topic_id if version >= 10 else bytes(16))
    assert [
        (p.error_code, p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes)
        for p in answer.partitions
    ] == [(0, n, 1, [1], [1]) for n in range(3)]
    assert all(p.leader_epoch == (0 if version >= 7 else -1) for p in answer.partitions)
    assert answer.topic_authorized_operations == NOT_ASKED


def test_the_cluster_id_is_a_uuid_as_kafka_writes_it(running: Running, client: Connection) -> None:
    cluster_id = ask(client).cluster_id

    assert cluster_id is not None and len(cluster_id) == 22
    assert cluster_id == ask(client, version=2).cluster_id


def test_the_cluster_id_is_that_of_the_log_on_every_broker_and_after_a_start() -> None:
    shared, ids = Shared(), set()
    for number in (1, 2, 1):
        running = Running({}, 1 << 24, broker=number, shared=shared)
        running.start()
        try:
            with running.connect() as client:
                ids.add(ask(client).cluster_id)
        finally:
            running.stop()

    assert len(ids) == 1 and None not in ids


def test_no_list_means_all_and_an_empty_one_none_but_in_version_0() -> None:
    with running_broker() as running, running.connect() as client:
        running.create_topic("a")
        running.create_topic("b")
        nothing = MetadataRequest([])

        assert ask_all(client, 1) == ask_all(client, 13) == ["a", "b"]
        assert len(client.call(METADATA, nothing, 0).topics) == 2
        assert client.call(METADATA, nothing, 1).topics == []
        assert client.call(METADATA, nothing, 13).topics == []


def test_a_topic_is_found_by_its_id(running: Running, client: Connection) -> None:
    topic = running.create_topic("by-id")

    def by_id(topic_id: bytes, version: int) -> MetadataResponseTopic:
        request = MetadataRequest([MetadataRequestTopic(topic_id, None)])
        response: MetadataResponse = client.call(METADATA, request, version)
        return response.topics[0]

    for version in (12, 13):
        assert by_id(topic.topic_id, version).name == "by-id"
        unknown = by_id(b"?" * 16, version)
        assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
        assert unknown.topic_id == b"?" * 16
        assert by_id(bytes(16), version).error_code == ErrorCode.INVALID_REQUEST
    assert by_id(topic.topic_id, 10).error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_that_is_asked_for_is_created(running: Running, client: Connection) -> None:
    (first,) = ask(client, "wanted", auto=True).topics
    assert first.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    running.wait_until(lambda: "wanted" in running.log.topics)
    (second,) = ask(client, "wanted", auto=True).topics

    assert (second.error_code, len(second.partitions)) == (0, 1)


def test_a_topic_asked_for_at_once_by_many_is_created_once(running: Running) -> None:
    clients = [running.connect() for _ in range(5)]
    for client in clients:
        ask(client, "rush", auto=True)
    running.wait_until(lambda: "rush" in running.log.topics)
    ids = {ask(client, "rush").topics[0].topic_id for client in clients}
    for client in clients:
        client.close()

    assert len(ids) == 1


def test_a_topic_is_created_only_if_request_and_setting_allow_it(client: Connection) -> None:
    assert ask(client, "unwanted").topics[0].error_code == 3
    with (
        running_broker({"auto.create.topics.enable": "false"}) as running,
        running.connect() as other,
    ):
        assert ask(other, "unwanted", auto=True).topics[0].error_code == 3
        assert not running.broker.being_created


def test_the_number_of_partitions_is_a_setting() -> None:
    with running_broker({"num.partitions": "4"}) as running, running.connect() as client:
        ask(client, "four", auto=True)
        running.wait_until(lambda: "four" in running.log.topics)
        assert len(ask(client, "four").topics[0].partitions) == 4


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250, "tïtle"])
def test_a_bad_name_is_invalid(client: Connection, name: str) -> None:
    (answer,) = ask(client, name, auto=True).topics

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_metrics_cannot_tell_apart_collide(running: Running, client: Connection) -> None:
    running.create_topic("one.two")

    assert ask(client, "one_two", auto=True).topics[0].error_code == 17


def test_allowed_operations_are_in_the_response_when_requested(
    running: Running, client: Connection
) -> None:
    running.create_topic("mine")
    request = MetadataRequest([MetadataRequestTopic(name="mine")], False, True, True)

    for version in (8, 9, 10):
        response: MetadataResponse = client.call(METADATA, request, version)
        assert response.topics[0].topic_authorized_operations == ALL_TOPIC_OPERATIONS
        assert response.cluster_authorized_operations > 0
    assert client.call(METADATA, request, 13).topics[0].topic_authorized_operations > 0


def test_many_topics_in_any_version(running: Running, client: Connection) -> None:
    names = [f"some-{n}" for n in range(150)]
    for name in names:
        running.create_topic(name, 2)
    for version in (0, 5, 8, 9, 10, 12, 13, 13):
        # Before version 4 a client cannot say that it wants no topic created.
        others = ["nowhere"] if version >= 4 else []
        answer = ask(client, *names, *others, version=version).topics

        assert [topic.name for topic in answer] == names + others
        assert [topic.error_code for topic in answer] == [0] * 150 + [3 for _ in others]
        assert all(len(topic.partitions) == 2 for topic in answer[:150])


def test_all_of_an_answer_is_of_one_moment(running: Running, client: Connection) -> None:
    """kafka-python 3.0.12 waits for ever where a leader is not among the brokers beside it."""
    names = [f"moment-{number}" for number in range(12)]
    for name in names:
        running.create_topic(name)
    asked = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    client.negotiate()
    before, held = running.broker.turns, HeldTurns(running)
    running.broker.turns = held
    try:
        client.send_raw(b"".join(encode_request_frame(1, APIS[METADATA], 12, "me", asked)))  # type: ignore[attr-defined]
        running.wait_until(lambda: bool(held.steps))
        running.do(lambda: running.broker.metadata.see(frozenset({2})))
        running.do(held.let_go)
        frame = memoryview(client.read_frame())  # type: ignore[attr-defined]
    finally:
        running.broker.turns = before

    _, at = decode_response_header(frame, APIS[METADATA], 12)
    answer = APIS[METADATA].decode_response(12, frame, at)
    assert [broker.node_id for broker in answer.brokers] == [1]
    assert [topic.partitions[0].leader_id for topic in answer.topics] == [1] * len(names)


def test_however_many_topics_are_asked_for_few_are_being_created_at_once() -> None:
    with running_broker({"num.partitions": "1"}) as running, running.connect() as client:
        names = [f"wanted-{number}" for number in range(AUTO_CREATED_AT_ONCE_MAX + 300)]
        response = ask(client, *names, auto=True)

        assert len(running.broker.being_created) <= AUTO_CREATED_AT_ONCE_MAX
        assert {topic.error_code for topic in response.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}
