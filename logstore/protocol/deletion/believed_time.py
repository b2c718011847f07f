"""Time for deletion by age: never the wall clock of one host alone. Pure.

    believed = min(wall clock, time of the store, pace)

    wall clock   of this host
    store        the time that the store stamped on an object we created, carried on by our
                 monotonic clock. Three requests (PUT, LIST, DELETE) once in a process, and again,
                 at most every ten minutes, while the wall clock runs ahead of it
    pace         only where the store is a directory, since files then carry the time of the same
                 host. The log's own time is a row; it goes up by at most 12 ms for each ms that a
                 monotonic clock has measured since it was written

    pk     sk         attributes
    time   believed   believed_ms, boot, monotonic_ms

A wall clock that is behind delays deletions. One that is ahead causes none: on S3 as long as the
store's clock is right; on a directory not at once, which leaves time to correct it. One host
without another clock cannot distinguish a clock set a year ahead from a year of absence. Both are
accepted gradually: an hour of running confirms twelve hours of the clock. `ahead_ms` is the part
not accepted yet, and retention warns about it. Nothing measures the time between two boots
(`boot`), so it must be confirmed too.

Stored timestamps come from the wall clock (`NowMs`): a timestamp that is too high only delays.
Ages are judged by `BelievedMs`. If a timestamp that is too low is harmful too, `StoreMs` is used:
the store's own time, independent of the wall clock; on a directory the wall clock. If it is only
too low that is harmful, `GraceStartMs`: on a directory not below the pace, which a wall clock that
was set back does not hold up.

    trim point, deletion  a low stamp would shorten its grace
    opening of a chain    a high one would make the chain forget producers that it inherits, a low
                          one would make the next chain forget producers of this one

Rejected: the clocks of other brokers (on S3 the store has a better one, on a directory brokers
share the host's); the kernel's judgement of its clock (`adjtimex`: unknown in most containers).
"""

from dataclasses import dataclass
from typing import NamedTuple

from logstore.errors import ConditionFailed, LogstoreError
from logstore.formats.row_fields import field_of
from logstore.ports.registry import Comparison, Row, RowAbsent
from logstore.protocol.steps import (
    Create,
    Delete,
    DrawNonce,
    GetRow,
    ModifiedMs,
    MonotonicS,
    NowMs,
    PutRow,
    Steps,
    UpdateRow,
)

TIME, BELIEVED = "time", "believed"
STAMPS = "probe/time/"
"""Keys of the objects that the store is asked its time with; one that is left may be deleted."""

AGREE_MS = 2_000
"""Stores stamp in whole seconds: a wall clock that is ahead by no more than this is not."""
ASK_AGAIN_MS = 60_000
ASK_AGAIN_S = 600.0
"""The store is asked again when the wall clock is ahead by more than this, as often as this."""
PACE = 12
CATCH_UP_MAX_MS = 43_200_000
"""Beyond the time that really passed, at one question, however long ago the last one was."""
ROW_STEP_MS = 600_000


class _Anchor(NamedTuple):
    """A time that was true at a moment of our monotonic clock, or before it."""

    time_ms: int
    monotonic_s: float

    def passed_ms(self, monotonic_s: float) -> int:
        return max(0, int((monotonic_s - self.monotonic_s) * 1000))


class ClockReading(NamedTuple):
    """Readings of this host's clocks."""

    wall_ms: int
    monotonic_s: float


@dataclass(slots=True)
class BelievedTime:
    """One process's knowledge of the time.

    `boot` names the boot of this host, where the store is a directory on it; None: a store that
    has a clock of its own.
    """

    boot: str | None = None
    ahead_ms: int = 0
    """Time by which the wall clock was ahead of the accepted time, at the last reading."""
    is_new: bool = False
    """Whether the log had no row."""
    _store: _Anchor | None = None
    _pace: _Anchor | None = None
    _row_ms: int | None = None
    """Time in the row; None: no row yet, or a row of another boot."""

    def asks_store(self, now: ClockReading) -> bool:
        """Whether the store is to be asked its time (again)."""
        if self._store is None:
            return True
        is_ahead = now.wall_ms - self._by_store(now) > ASK_AGAIN_MS
        return is_ahead and now.monotonic_s - self._store.monotonic_s >= ASK_AGAIN_S

    def store_said(self, store_ms: int, monotonic_s: float) -> None:
        """`monotonic_s` was read after the store had stamped `store_ms`."""
        self._store = _Anchor(store_ms, monotonic_s)

    def store_ms(self, now: ClockReading) -> int:
        """The time of the store, which was asked. In a directory: that of the wall clock."""
        return now.wall_ms if self.has_no_store_clock else self._by_store(now)

    def grace_start_ms(self, now: ClockReading) -> int:
        """The time from which a grace runs; on a directory after `now_ms`."""
        if self._pace is None:
            return self.store_ms(now)
        return max(now.wall_ms, self._pace.time_ms + self._pace.passed_ms(now.monotonic_s))

    @property
    def has_no_store_clock(self) -> bool:
        """Whether the store is a directory, which stamps by the clock of this host."""
        return self.boot is not None

    @property
    def asks_row(self) -> bool:
        """Whether the log's row is still to be read."""
        return self.boot is not None and self._pace is None

    def row_said(self, row: Row | None, now: ClockReading) -> None:
        """None: the log has no such row yet. Raises `Corrupt`."""
        if row is None:
            self.is_new = True
            self._pace = _Anchor(self._by_witnesses(now), now.monotonic_s)
            return
        believed_ms = field_of(row, "believed_ms", int)
        if field_of(row, "boot", str) != self.boot:
            self._pace = _Anchor(believed_ms, now.monotonic_s)
            return
        self._row_ms = believed_ms
        self._pace = _Anchor(believed_ms, field_of(row, "monotonic_ms", int) / 1000)

    def now_ms(self, now: ClockReading) -> int:
        """The accepted time, after the store and the row, if there is one, were read."""
        believed_ms = self._by_witnesses(now)
        if self._pace is not None:
            before_ms, passed_ms = self._pace.time_ms, self._pace.passed_ms(now.monotonic_s)
            catch_up_ms = min(passed_ms * (PACE - 1), CATCH_UP_MAX_MS)
            believed_ms = min(believed_ms, before_ms + passed_ms + catch_up_ms)
            self._pace = _Anchor(max(before_ms + passed_ms, believed_ms), now.monotonic_s)
        self.ahead_ms = max(0, now.wall_ms - believed_ms)
        return believed_ms

    def row_to_write(self) -> Row | None:
        """The row to write; None: the stored one is high enough, or there is none."""
        if self._pace is None or self.boot is None:
            return None
        time_ms, monotonic_s = self._pace
        if self._row_ms is not None and time_ms - self._row_ms < ROW_STEP_MS:
            return None
        self._row_ms = time_ms
        return {
            "believed_ms": time_ms,
            "boot": self.boot,
            "monotonic_ms": int(monotonic_s * 1000),
        }

    def _by_store(self, now: ClockReading) -> int:
        assert self._store is not None, "the store was not asked"
        return self._store.time_ms + self._store.passed_ms(now.monotonic_s)

    def _by_witnesses(self, now: ClockReading) -> int:
        store_ms = self._by_store(now)
        return now.wall_ms if now.wall_ms - store_ms <= AGREE_MS else store_ms


def believed_now(believed: BelievedTime) -> Steps[int]:
    """Milliseconds since 1970. Raises as store and registry do; then nothing is to be deleted."""
    now = yield from _moment_with_store(believed)
    if believed.asks_row:
        believed.row_said((yield GetRow(TIME, BELIEVED)), now)
    now_ms = believed.now_ms(now)
    row = believed.row_to_write()
    if row is not None:
        yield from _write_row(row, is_first=believed.is_new)
        believed.is_new = False
    return now_ms


def store_now(believed: BelievedTime) -> Steps[int]:
    """Milliseconds since 1970 by the store; in a directory by the wall clock, at no request."""
    if believed.has_no_store_clock:
        now_ms: int = yield NowMs()
        return now_ms
    return believed.store_ms((yield from _moment_with_store(believed)))


def grace_start(believed: BelievedTime) -> Steps[int]:
    """Milliseconds since 1970. Raises as `believed_now`."""
    if believed.has_no_store_clock:
        yield from believed_now(believed)
    return believed.grace_start_ms((yield from _moment_with_store(believed)))


def _moment_with_store(believed: BelievedTime) -> Steps[ClockReading]:
    """Now; the store was asked its time."""
    now = yield from _moment()
    if believed.asks_store(now):
        store_ms = yield from _time_of_store()
        # Read after the answer: the time of asking must not count.
        now = yield from _moment()
        believed.store_said(store_ms, now.monotonic_s)
    return now


def _moment() -> Steps[ClockReading]:
    wall_ms: int = yield NowMs()
    monotonic_s: float = yield MonotonicS()
    return ClockReading(wall_ms, monotonic_s)


def _time_of_store() -> Steps[int]:
    nonce: bytes = yield DrawNonce()
    key = STAMPS + nonce.hex()
    yield Create(key, [b"what time is it?"])
    try:
        store_ms: int = yield ModifiedMs(key)
    except LogstoreError:
        yield Delete(key)
        raise
    yield Delete(key)
    return store_ms


def _write_row(row: Row, *, is_first: bool) -> Steps[None]:
    """Upwards only. If another process was faster, its value is good enough."""
    try:
        if is_first:
            yield PutRow(TIME, BELIEVED, row, [RowAbsent()])
        else:
            conditions = [Comparison("believed_ms", "<=", row["believed_ms"])]
            yield UpdateRow(TIME, BELIEVED, row, conditions)
    except ConditionFailed:
        return
