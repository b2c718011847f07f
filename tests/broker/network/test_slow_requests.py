"""Slow requests are named now and then; those that wait on purpose are not."""

import logging
from typing import Any

import pytest

from broker.network.call import Call
from broker.network.slow_requests import LOGGED_EVERY_S, SLOW_S, SlowRequests
from logstore.wire.framing.apis import APIS
from tests.broker.running import FETCH, PRODUCE, Running, batch_of, produce_request
from tools.full_wire import Connection

JOIN_GROUP = 11


class Peer:
    peer = "10.0.0.7:1234"
    principal = "User:alice"
    active_s = 0.0


def call(key: int) -> Call:
    peer: Any = Peer()
    return Call(peer, APIS[key], 9, 1, "the client")


def test_slow_requests_are_named_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    slow = SlowRequests(lambda: now_s)
    for key in (FETCH, JOIN_GROUP):
        slow.note(call(key), 10 * SLOW_S)
    assert not caplog.records, "they wait on purpose"
    for _ in range(3):
        slow.note(call(PRODUCE), 2 * SLOW_S)
    now_s += LOGGED_EVERY_S
    slow.note(call(FETCH), 60.0)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith(
        "slow request: ms=4000 principal=User:alice peer=10.0.0.7:1234 api=Prod"
    )
    assert "api=Fetch" in second
    assert second.endswith("others_since_the_last_line=2")


def test_a_request_that_a_slow_store_held_up_is_named(
    running: Running, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    running.create_topic("slow")
    caplog.set_level(logging.WARNING)
    latencies = running.broker.clients.latencies
    began_s = running.broker.loop.time()
    latencies._now_s = lambda: began_s + 60.0
    try:
        client.call(PRODUCE, produce_request("slow", batch_of(b"v")), 11)
    finally:
        latencies._now_s = running.broker.loop.time
    (line,) = [one.getMessage() for one in caplog.records if "slow request" in one.getMessage()]
    assert "api=Produce" in line
