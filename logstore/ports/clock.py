"""The clock port: everything that reads time or waits takes one of these."""

import asyncio
import time
from typing import Protocol

MONOTONIC_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine is suspended, unlike `time.monotonic` on Linux and macOS.

A broker whose machine slept for an hour would believe that the read lease it renewed before still
runs, and a reader that its last read is younger than the delete grace. On macOS CLOCK_MONOTONIC
goes on; `time.monotonic` reads another clock. Timers of the event loop do stand still.
"""


class Clock(Protocol):
    """Two kinds of time: `monotonic_s` to measure waits, `now_ms` for stored timestamps.

    Both go on while the machine is suspended.
    """

    def monotonic_s(self) -> float: ...

    def now_ms(self) -> int: ...

    async def sleep_s(self, seconds: float) -> None: ...


def blocking_sleep_s(seconds: float) -> None:
    """For readers and tools that have no event loop."""
    time.sleep(seconds)


class SystemClock:
    def monotonic_s(self) -> float:
        return time.clock_gettime(MONOTONIC_CLOCK)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
