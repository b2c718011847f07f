"""Bounds the memory that is held for peers that do not take their answers.

An answer to a Fetch is made of views: of arenas that segments were built in, of segments that were
fetched. A view of some kilobytes keeps all 16 MiB of an arena. So the unsent rest of the answers of
a connection whose socket has been full for `SLOW_S` is copied; a peer that takes its answers as
they come is never copied for, since that would cost a tenth of the CPU time of a fetch.

All answers that wait to be written have one budget, too: beyond `UNSENT_BYTES_MAX` for all
connections together an answer to a Fetch is made no larger than `FAIR_BYTES` (and its first batch).
"""

from typing import Protocol

from broker.network.timers import Timers

SLOW_S = 1.0
COPIED_AT_ONCE_MAX = 16 * 1024 * 1024
"""Some milliseconds of copying; the rest waits for the next turn."""
UNSENT_BYTES_MAX = 128 * 1024 * 1024
FAIR_BYTES = 256 * 1024


class BlockedConnection(Protocol):
    def copy_unsent(self) -> int:
        """Copy what waits to be written, so that it holds nothing else; how many bytes that was."""
        ...


class SlowReaders:
    def __init__(self, timers: Timers) -> None:
        self.unsent_bytes = 0
        """Of all connections: answers that are ready and not written yet."""
        self.timer_bucket = 0
        self._timers = timers
        self._blocked: dict[BlockedConnection, None] = {}
        self._slow: dict[BlockedConnection, None] = {}
        """Those of `_blocked` that were so when the timer was set."""

    @property
    def room_bytes(self) -> int:
        """The size that one more answer should not exceed."""
        return max(FAIR_BYTES, UNSENT_BYTES_MAX - self.unsent_bytes)

    def blocked(self, connection: BlockedConnection) -> None:
        self._blocked[connection] = None
        if not self.timer_bucket:
            self._timers.set(self, SLOW_S)

    def unblocked(self, connection: BlockedConnection) -> None:
        self._blocked.pop(connection, None)
        self._slow.pop(connection, None)

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
