"""Requests that hold the event loop are counted, and named in the log now and then."""

import logging
from typing import Any

import pytest

from broker.network.call import Call
from broker.network.loop_holds import HOLD_S, LOGGED_EVERY_S, LONGEST_FOR_S, LoopHolds
from broker.network.turns import Turns
from logstore.wire.framing.apis import APIS
from logstore.wire.messages.metadata import MetadataRequest
from tests.broker.running import METADATA, Running
from tools.full_wire import Connection


class Peer:
    peer = "10.0.0.7:1234"
    active_s = 0.0
    is_closed = False


def call() -> Call:
    peer: Any = Peer()
    return Call(peer, APIS[METADATA], 12, 1, "the client")


def test_only_long_steps_count_and_one_line_in_a_while_names_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 100.0
    holds = LoopHolds(lambda: now_s)

    holds.note(call(), HOLD_S)
    assert not holds.by_api
    for _ in range(3):
        holds.note(call(), 2 * HOLD_S)
    now_s += LOGGED_EVERY_S
    holds.note(call(), 3 * HOLD_S)

    assert holds.by_api == {"Metadata": 4}
    first, second = (record.getMessage() for record in caplog.records)
    assert "ms=40 peer=10.0.0.7:1234" in first
    assert "api=Metadata" in first
    assert "client_id=the client" in first
    assert "others_since_the_last_line=2" in second


def test_a_request_that_holds_the_loop_is_counted_by_its_api(
    running: Running, client: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    holds = running.broker.clients.holds
    client.negotiate()
    caplog.set_level(logging.WARNING)
    holds.bound_s = -1.0
    try:
        client.call(METADATA, MetadataRequest(()), 12)
    finally:
        holds.bound_s = HOLD_S

    assert holds.by_api["Metadata"] == 1
    assert "event loop held" in caplog.text


def test_a_later_slice_that_holds_the_loop_is_counted() -> None:
    now_s = 0.0
    holds = LoopHolds(lambda: now_s)

    class Loop:
        steps: list[Any]

        def call_soon(self, step: Any) -> None:
            self.steps = [step]

    loop: Any = Loop()
    turns = Turns(loop, holds, lambda: now_s)

    def slices() -> Any:
        nonlocal now_s
        now_s += HOLD_S / 2
        yield
        now_s += 2 * HOLD_S
        yield

    turns.begin(call(), slices())
    assert not holds.by_api
    loop.steps.pop()()
    assert holds.by_api == {"Metadata": 1}


def test_the_longest_hold_is_shown_for_a_minute_or_two() -> None:
    now_s = 100.0
    holds = LoopHolds(lambda: now_s)
    holds.note(call(), 0.5)
    holds.note(call(), 0.1)
    now_s += 1.9 * LONGEST_FOR_S
    assert holds.longest_s("Metadata") == 0.5
    assert holds.longest_s("Fetch") == 0
    now_s += LONGEST_FOR_S
    assert holds.longest_s("Metadata") == 0
