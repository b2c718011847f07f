"""A clock that moves only while a caller sleeps by it."""

from collections.abc import Callable


class SteppedTime:
    """`at` has something happen when a time has come."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.sleeps: list[float] = []
        self._events: list[tuple[float, Callable[[], None]]] = []

    def monotonic_s(self) -> float:
        return self.passed_s

    def now_ms(self) -> int:
        return int(self.passed_s * 1000)

    async def sleep_s(self, seconds: float) -> None:
        self.pass_s(seconds)

    def at(self, when_s: float, event: Callable[[], None]) -> None:
        self._events.append((when_s, event))

    def pass_s(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.passed_s += seconds
        while self._events and self._events[0][0] <= self.passed_s:
            self._events.pop(0)[1]()
