"""What a peer may do to its own connection, and what it cannot do to the broker."""

import logging
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.network.connection import ClientConnection
from broker.network.listeners import Listener
from broker.network.slow_readers import UNSENT_BYTES_MAX
from logstore.config.listener_security import SecurityProtocol
from logstore.errors import LogstoreError, OutcomeUnknown
from logstore.wire.framing.apis import decode_response_header, encode_request_frame
from logstore.wire.messages.api_versions import ApiVersionsRequest
from logstore.wire.messages.fetch import FetchResponse
from logstore.wire.messages.metadata import MetadataRequest
from tests.broker.running import (
    API_VERSIONS,
    DEADLINE_S,
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
from tools.full_wire import APIS, Connection

VERSION = {PRODUCE: 9, FETCH: 12, METADATA: 9, API_VERSIONS: 3}


def frame(key: int, request: object, correlation_id: int = 1) -> bytes:
    parts = encode_request_frame(correlation_id, APIS[key], VERSION[key], "me", request)
    return b"".join(parts)


def answered_ids(client: Connection, count: int) -> list[int]:
    return [int.from_bytes(client.read_frame()[:4], "big") for _ in range(count)]


def assert_closed(client: Connection) -> None:
    with pytest.raises(OutcomeUnknown, match=r"closed|reset"):
        client.read_frame()


def assert_serves(running: Running) -> None:
    with running.connect() as other:
        assert other.negotiate()


def test_answers_leave_in_the_order_of_the_requests(running: Running) -> None:
    running.create_topic("order")
    with running.connect() as client:
        waits = fetch_request("order", max_wait_ms=10_000)
        client.send_raw(
            frame(FETCH, waits, 7)
            + frame(METADATA, MetadataRequest(()), 8)
            + frame(PRODUCE, produce_request("order", batch_of(b"x")), 9)
            + frame(API_VERSIONS, ApiVersionsRequest("a", "1"), 10)
        )
        # The fetch waits until the produce behind it is committed, and holds all of them back.
        first = client.read_frame()
        correlation_id, at = decode_response_header(first, APIS[FETCH], 12)
        response: FetchResponse = APIS[FETCH].decode_response(12, first, at)

        assert correlation_id == 7
        assert response.responses[0].partitions[0].records
        assert answered_ids(client, 3) == [8, 9, 10]


def test_a_fetch_behind_one_that_waits_is_not_begun(running: Running) -> None:
    running.create_topic("polled")
    watchers = running.log.topics["polled"].leaders[0]._watchers
    with running.connect() as client, running.connect() as producer:
        waits = fetch_request("polled", max_wait_ms=60_000)
        client.send_raw(frame(FETCH, waits, 1) + frame(FETCH, waits, 2) + frame(FETCH, waits, 3))
        running.wait_until(lambda: bool(watchers))
        assert len(running.do(lambda: list(watchers))) == 1

        produce(producer, "polled", batch_of(b"x"))
        assert answered_ids(client, 3) == [1, 2, 3]


def test_many_requests_in_one_packet_and_one_request_in_many(running: Running) -> None:
    with running.connect() as client:
        client.send_raw(
            b"".join(frame(API_VERSIONS, ApiVersionsRequest("a", "1"), i) for i in range(500))
        )
        assert answered_ids(client, 500) == list(range(500))

        for byte in frame(METADATA, MetadataRequest(()), 501):
            client.send_raw(bytes([byte]))
        assert answered_ids(client, 1) == [501]


MALFORMED = {
    "negative size": b"\xff\xff\xff\xff",
    "a TLS hello": bytes.fromhex("16030100c4010000c0030365"),
    "too large for its key": (2 << 20).to_bytes(4, "big") + b"\x00\x03\x00\x09",
    "empty frame": bytes(4),
    "header cut off": b"\x00\x00\x00\x05\x00\x03\x00\x09\x00",
    "unknown key": b"\x00\x00\x00\x0a" + b"\x03\xe8\x00\x00" + bytes(4) + b"\xff\xff",
    "unknown version": b"\x00\x00\x00\x0a" + b"\x00\x03\x00\x63" + bytes(4) + b"\xff\xff",
    "old produce": b"\x00\x00\x00\x0a" + b"\x00\x00\x00\x02" + bytes(4) + b"\xff\xff",
    "body cut off": b"\x00\x00\x00\x0c" + b"\x00\x03\x00\x01" + bytes(4) + b"\xff\xff\x00\x00",
    "client id too long": b"\x00\x00\x00\x0a" + b"\x00\x03\x00\x01" + bytes(4) + b"\x7f\xff",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_request_closes_the_connection_with_one_line(
    running: Running, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    running.broker.clients.refusals._second_ends_s = 0.0  # tests before may have used it up
    with caplog.at_level(logging.WARNING), running.connect() as client:
        client.send_raw(MALFORMED[what])
        assert_closed(client)

    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("connection closed: peer=127.0.0.1:")
    assert_serves(running)


def test_the_line_names_key_version_and_byte(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    running.broker.clients.refusals._second_ends_s = 0.0
    with caplog.at_level(logging.WARNING), running.connect() as client:
        client.send_raw(MALFORMED["body cut off"])
        assert_closed(client)

    assert "api_key=3 version=1" in caplog.text
    assert "byte=" in caplog.text


def test_requests_before_a_bad_one_are_answered(running: Running) -> None:
    with running.connect() as client:
        good = frame(API_VERSIONS, ApiVersionsRequest("a", "1"), 5)
        client.send_raw(good)
        assert answered_ids(client, 1) == [5]
        client.send_raw(good + good + MALFORMED["negative size"])
        assert answered_ids(client, 2) == [5, 5]
        assert_closed(client)


def seeds_of_frames() -> Iterator[bytes]:
    yield frame(PRODUCE, produce_request("fuzz", batch_of(b"x", b"y")))
    yield frame(PRODUCE, produce_request("fuzz", batch_of(b"x"), acks=0))
    yield frame(FETCH, fetch_request("fuzz"))
    yield frame(METADATA, MetadataRequest(None))
    yield frame(API_VERSIONS, ApiVersionsRequest("a", "1"))


@pytest.mark.seeds(4)
def test_mutated_frames_never_harm_the_broker(
    running: Running, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    rng = random.Random(seed)
    frames = list(seeds_of_frames())
    if "fuzz" not in running.log.topics:
        running.create_topic("fuzz", 2)
    with caplog.at_level(logging.ERROR):
        for _ in range(60):
            data = bytearray()
            for _ in range(20):
                one = bytearray(rng.choice(frames))
                for _ in range(rng.randint(0, 4)):
                    one[rng.randrange(4, len(one))] = rng.randrange(256)
                data += one
            with running.connect() as client, pytest.raises(LogstoreError):
                client.send_raw(bytes(data))
                client.send_raw(MALFORMED["negative size"])
                while True:
                    client.read_frame()

    assert not caplog.records, "a handler failed"
    assert_serves(running)
    with running.connect() as client:
        assert produce(client, "fuzz", batch_of(b"still")).error_code == 0


def test_random_bytes_never_harm_the_broker(running: Running) -> None:
    rng = random.Random(5)
    for _ in range(200):
        with running.connect() as client, pytest.raises(LogstoreError):
            client.send_raw(rng.randbytes(rng.randint(1, 300)))
            client.send_raw(b"\xff" * 4)
            client.read_frame()
    assert_serves(running)


def test_a_reader_that_does_not_read_is_not_read_from_either() -> None:
    with running_broker() as running, running.connect() as client:
        running.create_topic("slow")
        assert produce(client, "slow", batch_of(b"x" * 900_000)).error_code == 0
        count, one = 200, frame(FETCH, fetch_request("slow"))
        sender = _Sender(client, one * count)
        running.wait_until(lambda: _has_paused(running))

        unsent = running.do(lambda: max(c.unsent_bytes for c in running.broker.clients.connections))

        assert unsent < 20_000_000
        assert_serves(running)
        sender.join()
        assert answered_ids(client, count) == [1] * count


def pinned_bytes(running: Running) -> int:
    """What waits to be written and keeps more than itself: views of segments."""
    return sum(
        len(buffer)
        for connection in running.broker.clients.connections
        for buffer in connection._outbox
        if isinstance(buffer, memoryview) and len(buffer) < len(memoryview(buffer.obj))
    )


@pytest.mark.slow
def test_a_peer_that_takes_no_answers_keeps_no_arenas() -> None:
    """A view of some kilobytes keeps all 16 MiB of the arena that it lies in."""
    with running_broker() as running, running.connect() as client:
        running.create_topic("slow")
        assert produce(client, "slow", batch_of(b"x" * 900_000)).error_code == 0
        count, one = 100, frame(FETCH, fetch_request("slow"))
        sender = _Sender(client, one * count)
        running.wait_until(lambda: _has_paused(running))
        running.wait_until(lambda: pinned_bytes(running) == 0)

        readers = running.broker.clients.slow_readers
        assert 0 < running.do(lambda: readers.unsent_bytes) < 20_000_000
        sender.join()
        frames = [client.read_frame() for _ in range(count)]
        assert frames[1:] == frames[:1] * (count - 1), "copied as they were"
        running.wait_until(lambda: readers.unsent_bytes == 0)


def test_answers_of_all_connections_together_have_one_budget() -> None:
    with running_broker() as running, running.connect() as client:
        running.create_topic("slow")
        batch = batch_of(b"x" * 400_000)
        for _ in range(2):
            assert produce(client, "slow", batch).error_code == 0
        readers = running.broker.clients.slow_readers
        readers.unsent_bytes += UNSENT_BYTES_MAX
        assert fetched_bytes(client) == len(batch)
        readers.unsent_bytes -= UNSENT_BYTES_MAX
        assert fetched_bytes(client) == 2 * len(batch)


def fetched_bytes(client: Connection) -> int:
    records = fetch(client, "slow").records
    assert isinstance(records, memoryview)
    return len(records)


class _Sender:
    """Sends from a thread of its own, since the broker may stop reading."""

    def __init__(self, client: Connection, data: bytes) -> None:
        self._thread = threading.Thread(target=client.send_raw, args=(data,))
        self._thread.start()

    def join(self) -> None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


def test_a_connection_has_only_so_many_requests_under_way() -> None:
    settings = {"logstore.connection.requests.max": "10"}
    with running_broker(settings) as running, running.connect() as client:
        running.create_topic("many")
        running.hold_store()
        one = frame(PRODUCE, produce_request("many", batch_of(b"x")))
        client.send_raw(one * 50)
        running.wait_until(lambda: _has_paused(running))

        assert running.log.topics["many"].leaders[0].log_end == 10
        running.let_store_go()
        assert answered_ids(client, 50) == [1] * 50
        assert fetch(client, "many").high_watermark == 50


def _has_paused(running: Running) -> bool:
    return any(c._paused for c in running.broker.clients.connections)


def test_producers_are_not_read_while_the_log_is_full_and_others_are() -> None:
    settings = {"logstore.backlog.bytes": str(1 << 20), "logstore.segment.bytes": "65536"}
    with running_broker(settings) as running, running.connect() as client:
        running.create_topic("full")
        running.hold_store()
        count, one = 40, frame(PRODUCE, produce_request("full", batch_of(b"x" * 100_000)))
        sender = _Sender(client, one * count)
        running.wait_until(lambda: running.broker.clients.is_log_full)

        with running.connect() as other:
            assert fetch(other, "full").high_watermark == 0
        assert running.log.writer.backlog_bytes < 2 << 20
        running.let_store_go()
        sender.join()
        assert answered_ids(client, count) == [1] * count
        assert fetch(client, "full").high_watermark == count


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
def test_connections_beyond_the_limit_are_closed(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    with running_broker({name: "2"}) as running:
        with running.connect() as first, running.connect() as second:
            first.negotiate()
            second.negotiate()
            with running.connect() as third:
                assert_closed(third)
        assert "too many connections" in caplog.text
        running.wait_until(lambda: not running.broker.clients.connections)
        assert_serves(running)


def test_silent_connections_lock_no_client_out() -> None:
    with running_broker({"max.connections": "80"}) as running:
        silent = [running.connect() for _ in range(80)]
        running.wait_until(lambda: len(running.broker.clients.connections) == 80)
        with running.connect() as client:
            assert client.negotiate()
            assert_closed(silent[0])
            assert client.negotiate()
        for other in silent:
            other.close()


def test_a_connection_without_a_request_is_closed_and_one_that_has_asked_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_broker({"logstore.first.request.max.ms": "100"}) as running:
        with running.connect() as client, running.connect() as silent:
            client.negotiate()
            silent.send_raw(frame(METADATA, MetadataRequest(()))[:-1])
            assert_closed(silent)
            assert client.negotiate()
        assert "no request: logstore.first.request.max.ms=100" in caplog.text


def test_a_health_check_that_connects_and_leaves_writes_no_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_broker() as running:
        caplog.clear()
        before = running.broker.clients.accepted_count
        for _ in range(3):
            running.connect().close()
        running.wait_until(lambda: running.broker.clients.accepted_count == before + 3)
        running.wait_until(lambda: not running.broker.clients.connections)
        assert not caplog.records
        assert not running.broker.clients.refusals.count


def test_before_a_login_requests_are_small_and_the_time_runs_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {"logstore.first.request.max.ms": "500", "sasl.server.max.receive.size": "1024"}
    with running_broker(settings) as running:
        secured = replace(running.listener, protocol=SecurityProtocol.SASL_PLAINTEXT)
        ours, theirs = socket.socketpair()
        running.wait_for(accepted(running, secured, theirs))
        with Connection(ours, DEADLINE_S) as client:
            client.send_raw((2000).to_bytes(4, "big") + bytes(2000))
            assert_closed(client)
        assert "frame size=2000 max=1024" in caplog.text
        ours, theirs = socket.socketpair()
        running.wait_for(accepted(running, secured, theirs))
        with Connection(ours, DEADLINE_S) as client:
            client.negotiate()
            assert_closed(client)


async def accepted(running: Running, listener: Listener, theirs: socket.socket) -> None:
    clients = running.broker.clients
    theirs.setblocking(False)
    await clients.loop.connect_accepted_socket(lambda: ClientConnection(clients, listener), theirs)


@pytest.mark.slow
def test_an_idle_connection_is_closed() -> None:
    settings = {"connections.max.idle.ms": "1000"}
    with running_broker(settings) as running, running.connect() as client:
        client.negotiate()
        assert_closed(client)


def test_a_peer_that_goes_away_while_its_requests_wait_leaves_nothing_behind() -> None:
    with running_broker() as running:
        running.create_topic("gone")
        running.hold_store()
        client = running.connect()
        client.send_raw(frame(FETCH, fetch_request("gone", max_wait_ms=60_000)))
        client.send_raw(frame(PRODUCE, produce_request("gone", batch_of(b"x"))))
        running.wait_until(lambda: running.log.topics["gone"].leaders[0].log_end == 1)
        client.close()
        running.wait_until(lambda: not running.broker.clients.connections)

        assert not running.do(lambda: running.log.topics["gone"].leaders[0]._watchers)
        running.let_store_go()
        with running.connect() as other:
            assert produce(other, "gone", batch_of(b"y")).base_offset == 1


def test_a_stop_answers_what_is_held_and_commits_what_was_taken() -> None:
    with running_broker() as running, running.connect() as client, running.connect() as other:
        running.create_topic("stop")
        client.send_raw(frame(FETCH, fetch_request("stop", max_wait_ms=60_000), 1))
        running.wait_until(lambda: bool(running.log.topics["stop"].leaders[0]._watchers))
        running.hold_store()
        other.send_raw(frame(PRODUCE, produce_request("stop", batch_of(b"x")), 2))
        running.wait_until(lambda: running.log.topics["stop"].leaders[0].log_end == 1)
        running.stop()

        assert answered_ids(client, 1) == [1]
        assert answered_ids(other, 1) == [2]
        assert_closed(other)
        with pytest.raises(LogstoreError):
            running.connect()
