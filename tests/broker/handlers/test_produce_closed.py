"""Produce: a connection that closes while its request is read by a thread."""

import asyncio
import socket
import sys
import threading
from collections.abc import Callable

import pytest

from broker.answers.decisions.record_checks import RecordChecks
from broker.network.departures import left_by_their_clients
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wire.framing.apis import encode_request_frame
from logstore.wire.messages.produce import ProduceResponse
from tests.broker.running import DEADLINE_S, NOW_MS, PRODUCE, Running, produce_request
from tools.full_wire import APIS, Connection


def test_a_request_whose_connection_closes_while_it_is_read_appends_nothing(
    running: Running, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its buffer may hold bytes of another connection by then."""
    running.create_topic("closed-while-read")
    read, closed = threading.Event(), threading.Event()
    run = RecordChecks.run

    def held_run(checks: RecordChecks, is_over: Callable[[], bool]) -> None:
        monkeypatch.setattr(RecordChecks, "run", run)
        run(checks, is_over)
        read.set()
        assert closed.wait(DEADLINE_S)

    many = encode_batch([Record(0, NOW_MS, None, bytes(2 << 20))], compression="zstd")
    checks, clients = running.broker.record_checks, running.broker.clients
    monkeypatch.setattr(RecordChecks, "run", held_run)
    running.broker.record_checks = asyncio.Semaphore(1)  # the second one waits for the first
    try:
        request = produce_request("closed-while-read", many)
        with socket.create_connection(("127.0.0.1", running.listener.port)) as peer:
            # As the other connection's: what overwrites the buffer is a batch in the same place.
            frame = encode_request_frame(1, APIS[PRODUCE], 11, client.client_id, request)
            peer.sendall(b"".join(frame))
            assert read.wait(DEADLINE_S)
            running.do(lambda: list(clients.connections)[-1].refuse("ended by its test"))
            assert peer.recv(1) == b""
        closed.set()
        response: ProduceResponse = client.call(PRODUCE, request, 11)
    finally:
        closed.set()
        running.broker.record_checks = checks

    one = response.responses[0].partition_responses[0]
    assert (one.error_code, one.base_offset) == (0, 0)


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says that a peer has closed its side"
)
@pytest.mark.parametrize("acks", [-1, 0])
def test_records_wait_for_a_thread_and_their_client_leaves(
    running: Running, client: Connection, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    """One that waits for an answer is not served any more; one that wants none has just ended."""
    topic = f"left-with-acks-{acks}"
    running.create_topic(topic)
    read_count = 0
    run = RecordChecks.run

    def counted_run(checks: RecordChecks, is_over: Callable[[], bool]) -> None:
        nonlocal read_count
        read_count += 1
        run(checks, is_over)

    many = encode_batch([Record(0, NOW_MS, None, bytes(2 << 20))], compression="zstd")
    request = produce_request(topic, many)
    checks, clients = running.broker.record_checks, running.broker.clients
    monkeypatch.setattr(RecordChecks, "run", counted_run)
    running.broker.record_checks = turn = asyncio.Semaphore(0)
    try:
        with socket.create_connection(("127.0.0.1", running.listener.port)) as peer:
            request.acks = acks
            peer.sendall(b"".join(encode_request_frame(1, APIS[PRODUCE], 11, "left", request)))
        running.wait_until(lambda: bool(left_by_their_clients(clients.connections)))
        running.do(turn.release)
        request.acks = -1
        response: ProduceResponse = client.call(PRODUCE, request, 11)
    finally:
        running.broker.record_checks = checks

    one = response.responses[0].partition_responses[0]
    count = 1 if acks else 2
    assert (one.error_code, one.base_offset, read_count) == (0, count - 1, count)
