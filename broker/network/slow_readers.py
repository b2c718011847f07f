"""Bounds the memory that is held for peers that do not take their answers.

An answer to a Fetch is made of views: of arenas that segments were built in, of segments that were
fetched. A view of some kilobytes keeps all 16 MiB of an arena. So the unsent rest of the answers of
a connection whose socket has been full for `SLOW_S` is copied; a peer that takes its answers as
they come is never copied for, since that would cost a tenth of the CPU time of a fetch.

All answers that wait to be written have one budget, too. Beyond `UNSENT_BYTES_MAX` for all
connections together

    an answer to a Fetch is made no larger than `FAIR_BYTES` (and its first batch), and
    connections that took less than a piece of their answers in `STALL_S` are closed, the largest
    debtors first, until the rest is within the budget;

beyond twice as much no Fetch is begun, on any connection, until the rest is within the budget.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from broker.network.timers import Timers

SLOW_S = 1.0
COPIED_AT_ONCE_MAX = 16 * 1024 * 1024
"""Some milliseconds of copying; the rest waits for the next turn."""
UNSENT_BYTES_MAX = 128 * 1024 * 1024
FAIR_BYTES = 256 * 1024
CONNECTION_BYTES_MAX = 8 * 1024 * 1024
"""Of one connection whose answers are not sent yet: these and the next one together."""
STALL_S = 5.0


class BlockedConnection(Protocol):
    unsent_bytes: int

    def copy_unsent(self) -> int:
        """Copy what waits to be written, so that it holds nothing else; how many bytes that was."""
        ...

    def refuse(self, why: str, /) -> None: ...


class HeldConnection(Protocol):
    """A connection whose next request is a Fetch, while no Fetch is begun."""

    def release_fetch(self) -> None: ...


class ClosedConnection(BlockedConnection, HeldConnection, Protocol): ...


class SlowReaders:
    def __init__(self, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self.unsent_bytes = 0
        """Of all connections: answers that are ready and not written yet."""
        self.is_full = False
        """While it is, no Fetch is begun."""
        self.timer_bucket = 0
        self._loop = loop
        self._timers = timers
        self._stalls = _Stalls(timers, lambda: self.unsent_bytes)
        self._held: dict[HeldConnection, None] = {}
        self._blocked: dict[BlockedConnection, None] = {}
        self._slow: dict[BlockedConnection, None] = {}
        """Those of `_blocked` that were so when the timer was set."""

    @property
    def room_bytes(self) -> int:
        """The size that one more answer should not exceed."""
        return max(FAIR_BYTES, UNSENT_BYTES_MAX - self.unsent_bytes)

    def share_bytes(self, unsent_bytes: int) -> int:
        """The same, on a connection that has not taken `unsent_bytes` yet."""
        if not unsent_bytes:
            return self.room_bytes
        return min(self.room_bytes, max(0, CONNECTION_BYTES_MAX - unsent_bytes))

    def changed(self, by_bytes: int) -> None:
        """Answers are ready, were written, or are given up."""
        self.unsent_bytes += by_bytes
        if self.is_full:
            if self.unsent_bytes <= UNSENT_BYTES_MAX:
                self.is_full = False
                self._loop.call_soon(self._release)
        elif self.unsent_bytes > 2 * UNSENT_BYTES_MAX:
            self.is_full = True

    def hold(self, connection: HeldConnection) -> None:
        """`connection.release_fetch` is called when a Fetch may begin."""
        self._held[connection] = None

    def left(self, connection: ClosedConnection) -> None:
        self._held.pop(connection, None)
        self.unblocked(connection)
        self.changed(-connection.unsent_bytes)

    def _release(self) -> None:
        held, self._held = self._held, {}
        for connection in held:
            connection.release_fetch()

    def blocked(self, connection: BlockedConnection) -> None:
        self._blocked[connection] = None
        self._stalls.blocked(connection)
        if not self.timer_bucket:
            self._timers.set(self, SLOW_S)

    def unblocked(self, connection: BlockedConnection) -> None:
        self._blocked.pop(connection, None)
        self._slow.pop(connection, None)
        self._stalls.unblocked(connection)

    def time_out(self) -> None:
        """Copy for those that were blocked through a whole period."""
        self.timer_bucket = 0
        copied = 0
        while self._slow and copied < COPIED_AT_ONCE_MAX:
            connection, _ = self._slow.popitem()
            copied += connection.copy_unsent()
            self._blocked[connection] = None  # more answers may come
        if not self._slow:
            self._slow, self._blocked = self._blocked, {}
        if self._slow:
            self._timers.set(self, SLOW_S if copied < COPIED_AT_ONCE_MAX else 0.0)


class _Stalls:
    """Closes the largest debtors among the connections that take nothing."""

    def __init__(self, timers: Timers, unsent_bytes: Callable[[], int]) -> None:
        self.timer_bucket = 0
        self._timers = timers
        self._unsent_bytes = unsent_bytes
        self._blocked: dict[BlockedConnection, None] = {}
        self._stalled: dict[BlockedConnection, None] = {}
        """Those of `_blocked` that were so when the timer was set, and since."""

    def blocked(self, connection: BlockedConnection) -> None:
        self._blocked[connection] = None
        if not self.timer_bucket:
            self._timers.set(self, STALL_S)

    def unblocked(self, connection: BlockedConnection) -> None:
        self._blocked.pop(connection, None)
        self._stalled.pop(connection, None)

    def time_out(self) -> None:
        self.timer_bucket = 0
        over_bytes = self._unsent_bytes() - UNSENT_BYTES_MAX
        for connection in sorted(self._stalled, key=lambda one: -one.unsent_bytes):
            if over_bytes <= 0:
                break
            over_bytes -= connection.unsent_bytes
            connection.refuse(
                f"answers are not taken while others wait for memory: "
                f"unsent_bytes={connection.unsent_bytes}"
            )
        self._stalled = dict(self._blocked)
        if self._stalled:
            self._timers.set(self, STALL_S)
