"""Waiting for a simulated process to end, as an operator or a scheduler does."""

import asyncio
from collections.abc import Callable
from typing import Any

from logstore.testing.process_loop import Process
from tests.simulation.tiers.world import TierWorld

LOOK_S = 0.1


async def until_ended(
    world: TierWorld,
    process: Process,
    done: "asyncio.Future[Any]",
    limit_s: float,
    *,
    look_s: float = LOOK_S,
    stops_count: bool = True,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Until `done`, the death of the process, `is_over`, or the end of `limit_s`.

    Not `stops_count`: time in which it was stopped is no part of `limit_s`.
    """
    until_s = world.clock.monotonic_s() + limit_s
    while not (done.done() or process.is_dead or is_over()):
        if world.clock.monotonic_s() >= until_s + (0 if stops_count else process.stopped_s):
            return
        await world.clock.sleep_s(look_s)
