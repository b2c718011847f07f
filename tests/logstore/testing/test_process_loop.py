"""Simulated processes that are stopped, and go on."""

import asyncio

from logstore.testing.process_loop import Process, simulate
from logstore.testing.virtual_loop import VirtualClock


def test_of_two_stops_that_overlap_the_longer_one_holds() -> None:
    async def play() -> tuple[float, float, list[str]]:
        process, woken = Process("sleeper"), list[str]()
        done = process.spawn(_count_to(1))
        await VirtualClock().sleep_s(0.5)
        process.stop_for(30, lambda: woken.append("long"))
        await VirtualClock().sleep_s(1.5)
        process.stop_for(2, lambda: woken.append("short"))
        return await done, process.stopped_s, woken

    assert simulate(play()) == (30.5, 30, ["long"])


def test_a_process_is_stopped_at_a_step_of_its_own() -> None:
    async def play() -> float:
        process = Process("sleeper")
        process.at_step(2, lambda: process.stop_for(100))
        return await process.spawn(_count_to(5))

    assert simulate(play()) == 105


async def _count_to(seconds: int) -> float:
    """The time when it ends."""
    for _ in range(seconds):
        await VirtualClock().sleep_s(1)
    return asyncio.get_running_loop().time()
