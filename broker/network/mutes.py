"""Connections that are not read for a time, since a quota of their clients is used up (KIP-219).

The answer that says so leaves at once. A Produce is answered when its batches are committed, so its
connection is held back before: else a client could send others behind it.

A connection beyond the quota of its address is not read either, and closed when its time is over: a
client that is refused at once would connect again at once. A bounded number of these is kept.

A client may leave in that time, which nothing reads: its connection is looked at every few seconds,
and closed, so that it does not count for `max.connections` until its time is over.
"""

from collections.abc import Callable
from typing import Protocol

from broker.network.departures import left_by_their_clients
from broker.network.pauses import Pause
from broker.network.timers import Timers

DELAYED_MAX = 256
LOOKED_AT_EVERY_S = 2.0


class Mutable(Protocol):
    """A connection, as far as its being read goes."""

    def pause(self, why: Pause, /) -> None: ...

    def resume(self, why: Pause, /) -> None: ...

    def refuse(self, why: str, /) -> None: ...

    def abort(self) -> None: ...

    @property
    def descriptor(self) -> int | None: ...


class _Mute:
    """The time for which one connection is not read."""

    __slots__ = ("_mutes", "connection", "timer_bucket", "until_s", "why")

    def __init__(self, mutes: "Mutes", connection: Mutable, until_s: float, why: str) -> None:
        self.connection = connection
        self.until_s = until_s
        self.why = why
        """Of a connection that is closed afterwards; empty: it is read on."""
        self.timer_bucket = 0
        self._mutes = mutes

    def time_out(self) -> None:
        self._mutes.end(self)


class Mutes:
    def __init__(self, now_s: Callable[[], float], timers: Timers) -> None:
        self.timer_bucket = 0
        self._now_s = now_s
        self._timers = timers
        self._mutes: dict[Mutable, _Mute] = {}
        self._delayed_count = 0
        self._is_watching = False

    @property
    def count(self) -> int:
        """Connections that are not read now, but for those about to be throttled."""
        return len(self._mutes)

    def hold(self, connection: Mutable) -> None:
        """Do not read `connection` until the end of the next `mute`."""
        connection.pause(Pause.THROTTLED)

    def mute(self, connection: Mutable, seconds: float) -> None:
        """Do not read `connection` for so long, or until the end of an earlier mute."""
        until_s = self._now_s() + seconds
        known = self._mutes.get(connection)
        if known is not None:
            if until_s <= known.until_s:
                return
            self._timers.unset(known)
        connection.pause(Pause.THROTTLED)
        self._begin(_Mute(self, connection, until_s, ""), seconds)

    def close_later(self, connection: Mutable, seconds: float, why: str) -> bool:
        """Close it in so many seconds, which is not read until then; False: too many are kept."""
        if self._delayed_count >= DELAYED_MAX:
            return False
        self._delayed_count += 1
        connection.pause(Pause.THROTTLED)
        self._begin(_Mute(self, connection, self._now_s() + seconds, why), seconds)
        return True

    def left(self, connection: Mutable) -> None:
        mute = self._mutes.pop(connection, None)
        if mute is not None:
            self._timers.unset(mute)
            self._delayed_count -= bool(mute.why)

    def end(self, mute: _Mute) -> None:
        self.left(mute.connection)
        if mute.why:
            mute.connection.refuse(mute.why)
        else:
            mute.connection.resume(Pause.THROTTLED)

    def time_out(self) -> None:
        """Close the connections that their clients have left; look again in a while."""
        for connection in left_by_their_clients(self._mutes):
            connection.abort()
        self._is_watching = bool(self._mutes)
        if self._is_watching:
            self._timers.set(self, LOOKED_AT_EVERY_S)

    def close_delayed(self) -> None:
        """The broker stops."""
        for mute in tuple(self._mutes.values()):
            if mute.why:
                self.end(mute)

    def _begin(self, mute: _Mute, seconds: float) -> None:
        self._mutes[mute.connection] = mute
        self._timers.set(mute, seconds)
        if not self._is_watching:
            self._is_watching = True
            self._timers.set(self, LOOKED_AT_EVERY_S)
