"""Long work takes turns on the loop: no client waits for the end of another's request."""

import asyncio
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

from broker.network.call import Call
from broker.network.loop_holds import LoopHolds
from broker.network.turns import SLICE_S, Turns
from logstore.errors import Invalid
from logstore.ports.clock import SystemClock
from logstore.slices import Slices
from logstore.testing.virtual_loop import run
from logstore.wire.framing.apis import APIS

ITEMS_A_SLICE = 3


def turns() -> Turns:
    """Each look at the clock takes a third of a slice."""
    ticks = count()
    loop = asyncio.get_running_loop()
    return Turns(loop, LoopHolds(loop.time), lambda: next(ticks) * SLICE_S / ITEMS_A_SLICE)


class Peer:
    """A connection as a call sees it, which keeps why it was refused."""

    def __init__(self) -> None:
        self.active_s = 0.0
        self.is_closed = False
        self.refusals: list[str] = []

    def refuse(self, why: str) -> None:
        self.refusals.append(why)


def call_of(peer: Peer) -> Call:
    connection: Any = peer
    return Call(connection, APIS[3], 1, 1, "me")


def work(name: str, size: int, seen: list[str]) -> Slices[None]:
    for _ in range(size):
        seen.append(name)
        yield


async def passes(number: int = 30) -> None:
    for _ in range(number):
        await SystemClock().sleep_s(0)


def test_two_long_requests_alternate_and_a_short_one_passes_both() -> None:
    seen: list[str] = []

    async def play() -> int:
        shared = turns()
        shared.begin(call_of(Peer()), work("a", 4 * ITEMS_A_SLICE, seen))
        shared.begin(call_of(Peer()), work("b", 4 * ITEMS_A_SLICE, seen))
        shared.begin(call_of(Peer()), work("short", 1, seen))
        assert seen[-1] == "short", "before the rest of the long ones"
        await passes()
        return shared.taken_count

    taken = run(play())

    slices = "".join(name[0] for name in seen[::ITEMS_A_SLICE])
    assert slices.startswith("ab")
    assert "aa" not in slices[2:-1]
    assert seen.count("a") == seen.count("b") == 4 * ITEMS_A_SLICE
    assert taken >= 6


def test_other_work_of_the_loop_runs_between_two_slices() -> None:
    seen: list[str] = []

    async def play() -> None:
        shared = turns()
        shared.begin(call_of(Peer()), work("a", 10 * ITEMS_A_SLICE, seen))
        for _ in range(8):
            await SystemClock().sleep_s(0)
            seen.append("other")

    run(play())

    longest = max(len(part) for part in " ".join(seen).split("other"))
    assert longest <= 2 * (2 * ITEMS_A_SLICE + 1)


def test_nothing_more_is_done_for_a_connection_that_is_closed() -> None:
    seen: list[str] = []

    async def play() -> None:
        shared, peer = turns(), Peer()
        shared.begin(call_of(peer), work("a", 100, seen))
        peer.is_closed = True
        await passes()

    run(play())
    assert len(seen) <= ITEMS_A_SLICE


def test_an_error_in_a_later_slice_ends_its_own_connection_alone() -> None:
    seen: list[str] = []
    bad, good = Peer(), Peer()

    def fails() -> Slices[None]:
        yield from work("bad", 2 * ITEMS_A_SLICE, seen)
        raise Invalid("no such thing")

    async def play() -> None:
        shared = turns()
        shared.begin(call_of(bad), fails())
        shared.begin(call_of(good), work("good", 4 * ITEMS_A_SLICE, seen))
        await passes()

    run(play())
    assert len(bad.refusals) == 1
    assert not good.refusals
    assert seen.count("good") == 4 * ITEMS_A_SLICE


def test_work_that_begins_other_work_takes_one_turn_in_a_pass() -> None:
    seen: list[str] = []
    faults: list[object] = []

    async def play() -> int:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        shared = turns()

        def begins_another() -> Slices[None]:
            yield from work("a", ITEMS_A_SLICE, seen)
            shared.begin(call_of(Peer()), work("b", 3 * ITEMS_A_SLICE, seen))
            yield from work("a", 2 * ITEMS_A_SLICE, seen)

        shared.begin(call_of(Peer()), begins_another())
        await passes()
        return shared.taken_count

    taken = run(play())
    assert not faults
    assert seen.count("a") == seen.count("b") == 3 * ITEMS_A_SLICE
    assert taken <= 6


def test_a_task_shares_the_loop_while_it_loops_over_items() -> None:
    async def play() -> SimpleNamespace:
        shared, found = turns(), []

        def sliced() -> Iterator[None]:
            yield from [None] * 4 * ITEMS_A_SLICE

        async for item in shared.share(range(4 * ITEMS_A_SLICE)):
            found.append(item)
        between = shared.taken_count
        await shared.finish(result_of(sliced()))
        return SimpleNamespace(found=found, between=between, after=shared.taken_count)

    played = run(play())
    assert played.found == list(range(4 * ITEMS_A_SLICE))
    assert played.between >= 3
    assert played.after - played.between >= 3


def result_of(steps: Iterator[None]) -> Slices[str]:
    for _ in steps:
        yield
    return "done"
