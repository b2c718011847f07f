"""Connections that have sent no whole request yet: how long they may stay, and which leaves first.

    deadline    every newcomer has the same time for its first request. One whose large request is
                arriving, `PROGRESS_BYTES` of it since the last look, or is held back by us, has
                that time again: some clients begin with a Produce of megabytes
    room        where all places are taken, the newcomer that came first leaves for the next one,
                if it was silent for `SILENT_S` or is one of more than `COMING_MAX`

Clients send their first request with their connection, so silence alone takes no place from them.
Pure.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

PROGRESS_BYTES = 64 * 1024
SILENT_S = 1.0
COMING_MAX = 64


class Arriving(Protocol):
    @property
    def arrived_bytes(self) -> int:
        """Of large requests, ever."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether we take what it sends."""
        ...

    def __hash__(self) -> int: ...


A = TypeVar("A", bound=Arriving)


@dataclass(slots=True)
class _Newcomer:
    came_s: float
    until_s: float
    arrived_bytes: int = 0


class Newcomers(Generic[A]):
    def __init__(self) -> None:
        self._waits: dict[A, _Newcomer] = {}
        """By their deadline."""

    def __len__(self) -> int:
        return len(self._waits)

    @property
    def next_s(self) -> float | None:
        """When the next deadline is over; None: there is no newcomer."""
        return next((wait.until_s for wait in self._waits.values()), None)

    def enter(self, connection: A, now_s: float, limit_s: float) -> None:
        self._waits[connection] = _Newcomer(now_s, now_s + limit_s)

    def leave(self, connection: A) -> None:
        """Its first request is there, or it has ended."""
        self._waits.pop(connection, None)

    def take_late(self, now_s: float, limit_s: float) -> list[A]:
        """Returns the newcomers whose time is over; they are none any more."""
        late = []
        for connection, wait in list(self._waits.items()):
            if wait.until_s > now_s:
                break
            del self._waits[connection]
            arrived_bytes = connection.arrived_bytes
            if connection.is_read and arrived_bytes - wait.arrived_bytes < PROGRESS_BYTES:
                late.append(connection)
            else:
                self._waits[connection] = _Newcomer(wait.came_s, now_s + limit_s, arrived_bytes)
        return late

    def make_room(self, now_s: float) -> A | None:
        """Returns the newcomer that leaves for another connection, if one may; it is none then."""
        first = next(iter(self._waits), None)
        if first is None:
            return None
        if len(self._waits) <= COMING_MAX and now_s - self._waits[first].came_s < SILENT_S:
            return None
        del self._waits[first]
        return first
