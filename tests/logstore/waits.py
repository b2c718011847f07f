"""Waits of tests: until something holds, in virtual time; and a clock on which none takes time."""

from collections.abc import Callable

from logstore.ports.clock import SystemClock
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock


async def until(condition: Callable[[], bool], within_s: float = 120.0) -> None:
    """Return when `condition` holds, looked at every 10 ms of virtual time."""
    clock = VirtualClock()
    deadline_s = clock.monotonic_s() + within_s
    while not condition():
        assert clock.monotonic_s() < deadline_s, "the condition never held"
        await clock.sleep_s(0.01)


class Waits(SystemClock):
    """For tests of real files and threads: time passes as waits are long, and in no other way."""

    def __init__(self) -> None:
        self._waited_s = 0.0

    def monotonic_s(self) -> float:
        return self._waited_s

    def now_ms(self) -> int:
        return EPOCH_MS

    async def sleep_s(self, seconds: float) -> None:
        self._waited_s += seconds
        await super().sleep_s(0)
