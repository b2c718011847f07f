"""Gives receive buffers back that a burst has left in the pool, and the memory below them.

    more than a MiB is kept ──▶ a look every 10 s ──▶ drop what no connection took since the last

A burst of a thousand connections leaves 64 MiB of free buffers, which stayed for as long as the
broker lived. 16 MiB are dropped at a time, since the C library needs some milliseconds to give
them to the system.
"""

from collections.abc import Callable

from broker.network.buffers import BufferPool
from broker.network.timers import Timers

KEPT_S = 10.0
STEP_BYTES, STEP_S = 16 * 1024 * 1024, 0.5


class SpareBuffers:
    def __init__(self, pool: BufferPool, timers: Timers, give_back: Callable[[], object]) -> None:
        """`give_back` gives free memory of the heap to the system."""
        self.timer_bucket = 0
        self._pool = pool
        self._timers = timers
        self._give_back = give_back
        self._is_watching = False
        pool.on_surplus = self._watch

    def time_out(self) -> None:
        dropped = self._pool.drop_spare(STEP_BYTES)
        if dropped:
            self._give_back()
        self._is_watching = self._pool.has_surplus
        if self._is_watching:
            self._timers.set(self, STEP_S if dropped >= STEP_BYTES else KEPT_S)

    def _watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._timers.set(self, KEPT_S)
