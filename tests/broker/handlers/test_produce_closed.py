"""Produce: a connection that closes while its request is read by a thread."""

import asyncio
import socket
import threading
from collections.abc import Callable

import pytest

from broker.answers.record_checks import RecordChecks
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
