"""A clock for tests of real files and threads, on which no wait takes time."""

from logstore.ports.clock import SystemClock
from logstore.testing.virtual_loop import EPOCH_MS


class Waits(SystemClock):
    """Time passes as waits are long, and in no other way."""

    def __init__(self) -> None:
        self._waited_s = 0.0

    def monotonic_s(self) -> float:
        return self._waited_s

    def now_ms(self) -> int:
        return EPOCH_MS

    async def sleep_s(self, seconds: float) -> None:
        self._waited_s += seconds
        await super().sleep_s(0)
