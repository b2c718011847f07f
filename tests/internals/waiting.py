"""Waits in virtual time until a story has come to a point."""

import asyncio
from collections.abc import Callable

from logstore.testing.virtual_loop import VirtualClock

DEADLINE_S = 120.0


async def until(condition: Callable[[], bool]) -> None:
    clock = VirtualClock()
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await clock.sleep_s(0.01)
