"""One byte budget for the large requests that are arriving: `queued.max.request.bytes`.

A request's buffer grows with the bytes that have arrived, and each growth is taken from the budget.
Where there is no room, the connection is not read until others have given theirs back, in the order
in which they asked. Small requests (`SMALL_FRAME_BYTES`) and the first part of a large one need no
room: heartbeats and small batches pass whatever large ones do.

Unfinished requests may hold the whole budget, so two rules keep it from standing still:

    one connection at a time may grow beyond the budget until its request is complete, so requests
    that wait for one another all finish: the bound is the budget and one largest request
    while any connection waits, those of which less than `PROGRESS_BYTES` of an unfinished request
    came in `STALL_S` are closed, the largest buffer first, until there is room

Kafka takes the whole size from its pool when a request is announced, and waits as long as its peer
likes: three peers that announce 100 MiB and send nothing would fill 256 MiB here.
"""

import asyncio
from collections.abc import Collection
from typing import Protocol

from broker.network.timers import Timers

STALL_S = 5.0
PROGRESS_BYTES = 64 * 1024
"""13 KiB a second: a slower peer would hold its buffer for minutes that others wait for."""


class Receiver(Protocol):
    """A connection, as far as the request that is arriving on it goes."""

    @property
    def growth_bytes(self) -> int:
        """How much larger its buffer must be before more can arrive; 0: there is room."""
        ...

    @property
    def unfinished_bytes(self) -> int:
        """The size of the buffer of a request that has not all arrived, else 0."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether it is the peer's to complete the request: this broker holds nothing back."""
        ...

    @property
    def arrived_bytes(self) -> int:
        """Of large requests, ever."""
        ...

    def grow(self) -> None:
        """Take `growth_bytes` now, and read on."""
        ...

    def hold_back(self) -> None:
        """Do not read before `grow`."""
        ...

    def refuse(self, why: str, /) -> None: ...


class ReceiveBudget:
    """`connections` are all there are, which the owner adds to and takes from."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        bytes_max: int,
        connections: Collection[Receiver],
    ) -> None:
        self.used_bytes = 0
        """Of all buffers that large requests have now."""
        self.timer_bucket = 0
        self._loop = loop
        self._timers = timers
        self._bytes_max = bytes_max
        self._connections = connections
        self._waiting: dict[Receiver, None] = {}
        self._beyond: Receiver | None = None
        """The connection that may grow beyond the budget."""
        self._arrived: dict[Receiver, int] = {}
        """`arrived_bytes` when the timer was set."""
        self._is_due = False

    def limit(self, bytes_max: int) -> None:
        """From now on."""
        self._bytes_max = bytes_max
        if self._waiting:
            self._grant_soon()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def changed(self, by_bytes: int) -> None:
        """A buffer was taken, has grown or was given back."""
        self.used_bytes += by_bytes
        if by_bytes < 0 and self._waiting:
            self._grant_soon()

    def ask(self, connection: Receiver) -> None:
        """Let `connection` grow, now or when there is room."""
        self._waiting[connection] = None
        if len(self._waiting) == 1 or connection is self._beyond:
            self._grant()
        if connection in self._waiting:
            connection.hold_back()
            if not self.timer_bucket:
                self._arrived = {}
                self._watch()

    def left(self, connection: Receiver) -> None:
        self._waiting.pop(connection, None)
        self._arrived.pop(connection, None)
        if connection is self._beyond:
            self._beyond = None
        if self._waiting:
            self._grant_soon()

    def time_out(self) -> None:
        """Close the connections that others wait for and whose requests do not arrive."""
        self.timer_bucket = 0
        if not self._waiting:
            return
        stalled = [
            connection
            for connection in self._unfinished()
            if connection.arrived_bytes - self._arrived.get(connection, 0) < PROGRESS_BYTES
            and connection in self._arrived
        ]
        wanted_bytes = self.used_bytes - self._bytes_max
        wanted_bytes += sum(connection.growth_bytes for connection in self._waiting)
        for connection in sorted(stalled, key=lambda one: -one.unfinished_bytes):
            if wanted_bytes <= 0:
                break
            size = connection.unfinished_bytes
            wanted_bytes -= size
            connection.refuse(
                f"request does not arrive while others wait for memory: buffer_bytes={size} "
                f"queued.max.request.bytes={self._bytes_max}"
            )
        self._watch()

    def _watch(self) -> None:
        self._arrived = {one: one.arrived_bytes for one in self._unfinished()}
        self._timers.set(self, STALL_S)

    def _unfinished(self) -> list[Receiver]:
        return [
            connection
            for connection in self._connections
            if connection.unfinished_bytes and connection.is_read
        ]

    def _grant_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._grant)

    def _grant(self) -> None:
        self._is_due = False
        if self._beyond is not None and not self._beyond.unfinished_bytes:
            self._beyond = None
        while self._waiting:
            connection = next(iter(self._waiting))
            if self._beyond in self._waiting:
                connection = self._beyond
            elif self.used_bytes + connection.growth_bytes > self._bytes_max:
                if self._beyond is not None:
                    return
                self._beyond = connection
            del self._waiting[connection]
            connection.grow()
