"""The clock port: everything that reads time or waits takes one of these."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Two kinds of time: `monotonic_s` to measure waits, `now_ms` for stored timestamps."""

    def monotonic_s(self) -> float: ...

    def now_ms(self) -> int: ...

    async def sleep_s(self, seconds: float) -> None: ...


def blocking_sleep_s(seconds: float) -> None:
    """For readers and tools that have no event loop."""
    time.sleep(seconds)


class SystemClock:
    def monotonic_s(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
