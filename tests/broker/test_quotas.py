"""Answers say at once that a client is beyond a quota; it is not read until it is within it.

Quotas here are so small that the time to wait is hours: a test ends it by itself.
"""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from broker.network.decisions.quota_rules import QuotaKind
from broker.network.mutes import DELAYED_MAX
from logstore.errors import OutcomeUnknown
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from logstore.wire.messages.fetch import FetchPartition, FetchResponse
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logstore.wire.messages.produce import ProduceResponse
from tests.broker.quota_calls import connections, end_throttling, is_read, set_quota
from tests.broker.running import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    METADATA,
    PRODUCE,
    Running,
    batch_of,
    fetch,
    fetch_request,
    produce,
    produce_request,
    running_broker,
)
from tests.broker.session_consumer import SessionConsumer
from tools.full_wire import APIS, Connection

CREATE_PARTITIONS = 37
GREEDY: dict[str, str | None] = {"client-id": "greedy"}
BATCH = batch_of(b"x" * 1000)


@pytest.fixture
def greedy(running: Running) -> Iterator[Connection]:
    """A client with a name of its own, for which tests set quotas."""
    with running.connect() as connection:
        connection.client_id = "greedy"
        connection.negotiate()
        yield connection
    with running.connect() as client:
        names = [kind.value for kind in QuotaKind if kind is not QuotaKind.CONNECTION]
        set_quota(client, GREEDY, **dict.fromkeys(names))
    running.do(running.broker.clients.quotas._rates.clear)
    end_throttling(running)  # the end of a connection is not noticed before
    running.wait_until(lambda: running.broker.clients.mutes.count == 0)


def call(client: Connection, key: int, request: Any, version: int) -> Any:
    return client.call(key, request, version)


def produced(client: Connection, topic: str, version: int = 11) -> ProduceResponse:
    response: ProduceResponse = client.call(PRODUCE, produce_request(topic, BATCH), version)
    assert response.responses[0].partition_responses[0].error_code == 0
    return response


# Bytes


@pytest.mark.parametrize("version", [3, 8, 11, 12])
def test_a_producer_beyond_its_quota_gets_its_answer_and_is_not_read(
    running: Running, client: Connection, greedy: Connection, version: int
) -> None:
    running.create_topic(f"muted-{version}")
    set_quota(client, GREEDY, producer_byte_rate=1)

    response = produced(greedy, f"muted-{version}", version)

    assert response.throttle_time_ms == pytest.approx((len(BATCH) - 10) * 1000, abs=1000)
    assert not is_read(running, greedy)
    assert is_read(running, client)
    assert running.do(lambda: running.broker.clients.mutes.count) == 1

    greedy.send_raw(metadata_frame())
    assert produced(client, f"muted-{version}").throttle_time_ms == 0
    assert not is_read(running, greedy)
    end_throttling(running)
    assert greedy.read_frame(), "the request that waited is answered"
    assert is_read(running, greedy)


def metadata_frame() -> bytes:
    request = MetadataRequest(())
    return b"".join(encode_request_frame(1, APIS[METADATA], 9, "greedy", request))


def test_producers_behind_a_throttled_one_wait_until_it_is_answered(
    running: Running, client: Connection, greedy: Connection
) -> None:
    running.create_topic("pipelined")
    set_quota(client, GREEDY, producer_byte_rate=1)
    running.hold_store()
    request = produce_request("pipelined", BATCH)
    frame = b"".join(encode_request_frame(1, APIS[PRODUCE], 9, "greedy", request))
    greedy.send_raw(frame * 5)
    running.wait_until(lambda: running.log.writer.backlog_bytes > 0)

    assert not is_read(running, greedy)
    assert running.do(lambda: running.log.topics["pipelined"].leaders[0].log_end) == 1
    running.let_store_go()
    greedy.read_frame()
    assert not is_read(running, greedy)
    assert running.do(lambda: running.log.topics["pipelined"].leaders[0].log_end) == 1


def test_a_producer_that_wants_no_answer_is_not_read_either(
    running: Running, client: Connection, greedy: Connection
) -> None:
    running.create_topic("silent")
    set_quota(client, GREEDY, producer_byte_rate=1)
    request = produce_request("silent", BATCH, acks=0)
    greedy.send_raw(b"".join(encode_request_frame(1, APIS[PRODUCE], 9, "greedy", request)))
    running.wait_until(lambda: running.broker.clients.mutes.count == 1)

    assert not is_read(running, greedy)


def test_a_client_within_its_quota_is_not_throttled(
    running: Running, client: Connection, greedy: Connection
) -> None:
    running.create_topic("within")
    set_quota(client, GREEDY, producer_byte_rate=10**9, consumer_byte_rate=10**9)

    assert produced(greedy, "within").throttle_time_ms == 0
    response: FetchResponse = call(greedy, FETCH, fetch_request("within"), 12)
    assert response.throttle_time_ms == 0
    assert response.responses[0].partitions[0].records
    assert is_read(running, greedy)


def test_a_consumer_beyond_its_quota_gets_nothing_and_the_same_records_later(
    running: Running, client: Connection, greedy: Connection
) -> None:
    running.create_topic("read")
    produce(client, "read", BATCH)
    set_quota(client, GREEDY, consumer_byte_rate=1)

    first: FetchResponse = call(greedy, FETCH, fetch_request("read"), 12)
    assert first.responses[0].partitions[0].records, "else a large batch was never read"
    assert first.throttle_time_ms > 0
    assert not is_read(running, greedy)
    end_throttling(running)

    second: FetchResponse = call(greedy, FETCH, fetch_request("read"), 12)
    assert (second.responses, second.error_code) == ([], 0)
    assert second.throttle_time_ms > 0
    assert not is_read(running, greedy)
    end_throttling(running)

    traffic = running.do(lambda: running.broker.traffic.by_topic["read"].bytes_out)
    assert traffic == len(BATCH)
    set_quota(client, GREEDY, consumer_byte_rate=None)
    assert fetch(greedy, "read").records


def test_a_throttled_session_answers_the_same_partitions_later(
    running: Running, client: Connection, greedy: Connection
) -> None:
    running.create_topic("session", 3)
    consumer = SessionConsumer(greedy, "session")
    assert len(consumer.open(3)) == 3
    produce(client, "session", BATCH, partition=1)
    set_quota(client, {"client-id": "me"}, consumer_byte_rate=1)  # of `SessionConsumer`
    assert [one.partition_index for one in consumer.fetch(max_wait_ms=20_000)] == [1]
    end_throttling(running)

    produce(client, "session", BATCH, partition=2)
    assert consumer.fetch() == []
    assert consumer.session[0] > 0
    end_throttling(running)
    set_quota(client, {"client-id": "me"}, consumer_byte_rate=None)
    assert {one.partition_index for one in consumer.fetch() if one.records} == {1, 2}


def test_a_throttled_fetch_opens_no_session(
    running: Running, client: Connection, greedy: Connection
) -> None:
    running.create_topic("unopened")
    produce(client, "unopened", BATCH)
    set_quota(client, {"client-id": "me"}, consumer_byte_rate=1)
    consumer = SessionConsumer(greedy, "unopened")
    asked = FetchPartition(0, partition_max_bytes=1 << 20)
    assert consumer.fetch(asked)
    end_throttling(running)

    again = SessionConsumer(greedy, "unopened")
    again.send(asked)
    response = again.receive()
    assert (response.session_id, response.error_code, response.responses) == (0, 0, [])
    end_throttling(running)
    set_quota(client, {"client-id": "me"}, consumer_byte_rate=None)


# Time


def test_every_answer_says_that_a_client_is_beyond_its_request_time(
    running: Running, client: Connection, greedy: Connection
) -> None:
    set_quota(client, GREEDY, request_percentage=1e-6)
    running.create_topic("timed")
    requests: list[tuple[int, Any, int]] = [
        (METADATA, MetadataRequest(()), 9),
        (PRODUCE, produce_request("timed", BATCH), 9),
        (FETCH, fetch_request("timed"), 12),
    ]
    assert greedy.negotiate()  # takes some time, which counts from now on
    end_throttling(running)
    for key, request, version in requests:
        response = call(greedy, key, request, version)
        assert response.throttle_time_ms == 1000, "a window at most"
        assert not is_read(running, greedy)
        end_throttling(running)


# Changes of the cluster


def create(client: Connection, name: str, partitions: int, version: int, **fields: Any) -> Any:
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 20_000, **fields)
    return call(client, CREATE_TOPICS, request, version)


def test_changes_beyond_the_quota_are_refused(
    running: Running, client: Connection, greedy: Connection
) -> None:
    set_quota(client, GREEDY, controller_mutation_rate=0.001)
    first = create(greedy, "strict-1", 5, 6)
    assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)

    second = create(greedy, "strict-2", 1, 6)
    assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "controller_mutation_rate" in second.topics[0].error_message
    assert second.throttle_time_ms == pytest.approx(4_989_000, abs=60_000)
    assert not is_read(running, greedy)
    end_throttling(running)
    grown = [CreatePartitionsTopic("strict-1", 6)]
    deleted = [DeleteTopicState("strict-1")]
    for key, request, version in (
        (CREATE_PARTITIONS, CreatePartitionsRequest(grown, 20_000), 3),
        (DELETE_TOPICS, DeleteTopicsRequest(["strict-1"], timeout_ms=20_000), 5),
        (DELETE_TOPICS, DeleteTopicsRequest(topics=deleted, timeout_ms=20_000), 6),
    ):
        response = call(greedy, key, request, version)
        results = getattr(response, "results", None) or response.responses
        assert results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert response.throttle_time_ms > 0
        end_throttling(running)
    assert not create(greedy, "strict-3", 1, 7, validate_only=True).topics[0].error_code
    topics = running.do(lambda: dict(running.log.topics))
    assert topics["strict-1"].partition_count == 5
    assert not topics.keys() & {"strict-2", "strict-3"}


def test_changes_of_older_versions_are_done_and_throttled_afterwards(
    running: Running, client: Connection, greedy: Connection
) -> None:
    set_quota(client, GREEDY, controller_mutation_rate=0.001)
    for number in range(2):
        response = create(greedy, f"permissive-{number}", 2, 5)
        assert response.topics[0].error_code == 0
        assert response.throttle_time_ms > 0
        assert not is_read(running, greedy)
        end_throttling(running)
    grown = CreatePartitionsRequest([CreatePartitionsTopic("permissive-0", 3)], 20_000)
    for key, request, version in (
        (CREATE_PARTITIONS, grown, 2),
        (DELETE_TOPICS, DeleteTopicsRequest(["permissive-1"], timeout_ms=20_000), 4),
    ):
        response = call(greedy, key, request, version)
        results = getattr(response, "results", None) or response.responses
        assert results[0].error_code == 0
        assert response.throttle_time_ms > 0
        end_throttling(running)


def test_topics_are_not_created_on_demand_beyond_the_quota(
    running: Running, client: Connection, greedy: Connection
) -> None:
    set_quota(client, GREEDY, controller_mutation_rate=0.001)
    create(greedy, "beyond", 5, 6)
    request = MetadataRequest([MetadataRequestTopic(name="on-demand")], True)
    response = call(greedy, METADATA, request, 9)

    assert response.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert not running.do(lambda: "on-demand" in running.broker.being_created)


# Connections


def test_connections_beyond_the_rate_of_their_address_are_closed_and_not_served(
    running: Running, client: Connection
) -> None:
    with running.connect() as kept:
        kept.negotiate()
        set_quota(client, {"ip": None}, connection_creation_rate=0)
        before = running.do(lambda: running.broker.clients.accepted_count)
        with running.connect() as refused:
            running.wait_until(lambda: running.broker.clients.mutes.count == 1)
            refused.send_raw(metadata_frame())
            assert kept.negotiate()
            assert running.do(lambda: running.broker.clients.accepted_count) == before
            end_throttling(running)
            with pytest.raises(OutcomeUnknown, match=r"closed|reset"):
                refused.read_frame()
        set_quota(kept, {"ip": None}, connection_creation_rate=None)
    with running.connect() as again:
        assert again.negotiate()


def test_an_address_with_a_quota_of_its_own_has_not_the_default(
    running: Running, client: Connection
) -> None:
    set_quota(client, {"ip": "127.0.0.1"}, connection_creation_rate=1000)
    set_quota(client, {"ip": None}, connection_creation_rate=0)
    with running.connect() as other:
        assert other.negotiate()
    set_quota(client, {"ip": None}, connection_creation_rate=None)
    set_quota(client, {"ip": "127.0.0.1"}, connection_creation_rate=None)


def test_a_bounded_number_of_such_connections_is_kept(running: Running, client: Connection) -> None:
    clients = running.broker.clients
    set_quota(client, {"ip": None}, connection_creation_rate=0)
    refused_count = running.do(lambda: clients.refusals.count)
    running.do(lambda: setattr(clients.mutes, "_delayed_count", DELAYED_MAX))
    with socket.create_connection(("127.0.0.1", running.listener.port), 10) as peer:
        running.wait_until(
            lambda: clients.refusals.count > refused_count or clients.mutes.count > 0
        )
        assert running.do(lambda: clients.mutes.count) == 0, "closed at once"
        assert peer.recv(1) == b""
    running.do(lambda: setattr(clients.mutes, "_delayed_count", 0))
    set_quota(client, {"ip": None}, connection_creation_rate=None)


# Windows


def test_fewer_windows_allow_a_smaller_burst() -> None:
    for number, expected_ms in (("11", 0), ("2", 1_000)):
        settings = {f"{prefix}quota.window.num": number for prefix in ("", "controller.")}
        with running_broker(settings) as running, running.connect() as client:
            running.create_topic("burst")
            set_quota(client, {"client-id": client.client_id}, producer_byte_rate=len(BATCH) // 2)
            answer = call(client, PRODUCE, produce_request("burst", BATCH), 11)
            assert answer.throttle_time_ms // 100 * 100 == expected_ms
            kept = running.broker.clients.quotas._controller_windows
            assert kept.number == int(number)


# Ending


def test_a_throttled_connection_whose_client_left_does_not_count_for_hours(
    running: Running, client: Connection
) -> None:
    running.create_topic("left")
    set_quota(client, {"client-id": "leaving"}, producer_byte_rate=1)
    with running.connect() as leaving:
        leaving.client_id = "leaving"
        produced(leaving, "left")
    count = len(running.do(lambda: connections(running)))
    running.wait_until(lambda: len(connections(running)) == count - 1)
    assert running.do(lambda: running.broker.clients.mutes.count) == 0
    set_quota(client, {"client-id": "leaving"}, producer_byte_rate=None)
