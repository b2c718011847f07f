"""Deadlines of many requests on one timer of the event loop.

Requests of 70,000 a second each have a deadline, and nearly all are answered first. So setting and
unsetting one is a dict operation; the loop has a timer only for the first bucket that is due. A
deadline is met up to `TICK_S` late, never early.
"""

import asyncio
import heapq
import math
from collections.abc import Iterator
from typing import Protocol

TICK_S = 0.02


class Timed(Protocol):
    """An object that can have a deadline; one at a time."""

    timer_bucket: int
    """Kept here; 0 when there is no deadline."""

    def time_out(self) -> None: ...


class Timers:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: dict[int, dict[Timed, None]] = {}
        self._order: list[int] = []
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0

    def set(self, timed: Timed, seconds: float) -> None:
        """Call `timed.time_out()` in `seconds`, unless `unset` comes first."""
        number = math.ceil((self._loop.time() + seconds) / TICK_S)
        timed.timer_bucket = number
        bucket = self._buckets.get(number)
        if bucket is not None:
            bucket[timed] = None
            return
        self._buckets[number] = {timed: None}
        heapq.heappush(self._order, number)
        if self._handle is None or number < self._due:
            self._schedule()

    def unset(self, timed: Timed) -> None:
        bucket = self._buckets.get(timed.timer_bucket)
        if bucket is not None:
            bucket.pop(timed, None)
        timed.timer_bucket = 0

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._buckets.clear()
        self._order.clear()

    def _schedule(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._order:
            self._due = self._order[0]
            self._handle = self._loop.call_at(self._due * TICK_S, self._fire)

    def _fire(self) -> None:
        self._handle = None
        now = self._loop.time() + TICK_S / 16  # the loop's clock is coarser than ours
        due: list[tuple[int, Timed]] = []
        while self._order and self._order[0] * TICK_S <= now:
            number = heapq.heappop(self._order)
            due += [(number, timed) for timed in self._buckets.pop(number)]
        self._schedule()
        self._time_out(iter(due))

    def _time_out(self, due: Iterator[tuple[int, Timed]]) -> None:
        """An exception of one goes to the loop, and the others are called all the same."""
        for number, timed in due:
            if timed.timer_bucket == number:  # else it was unset by one before it
                timed.timer_bucket = 0
                try:
                    timed.time_out()
                except Exception:
                    self._loop.call_soon(self._time_out, due)
                    raise
