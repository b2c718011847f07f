"""Which segments are committed: safety rule 1, for the writer of a chain.

    frozen ──▶ waiting ──▶ in flight ──▶ stored ──▶ committed, in order of seq

commit(seq) = every seq up to it is stored and none is a seal. Puts end in any order; answers to
producers, high watermarks and readers follow commits, so nothing beyond a gap is ever promised.
Once a seq is found taken nothing at or above it will be committed, while seqs below it still may.
Pure.
"""

from collections import deque
from dataclasses import dataclass

from logstore.formats.segment_builder import FrozenSegment
from logstore.protocol.chain.flush import FlushSettings

PUTS_MIN, PUTS_MAX = 8, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Limits of puts that are queued or under way."""

    by_interval: int = 2
    """The flush interval freezes the open segment only while fewer are."""

    by_size: int = PUTS_MIN
    """Puts at once. A segment that is frozen because it is full waits until one of them ends."""

    @staticmethod
    def of(settings: FlushSettings) -> "Window":
        """As many puts as the backlog holds full segments: a store far away bounds the rate of a
        broker by what is on its way at once, and this is what `logstore.backlog.bytes` allows."""
        full = settings.backlog_bytes_max // settings.segment_bytes_max
        return Window(by_size=max(PUTS_MIN, min(full, PUTS_MAX)))


class Pipeline:
    """Frozen segments on their way. `first_seq` is the first that this pipeline will see."""

    def __init__(self, first_seq: int, window: Window) -> None:
        self.window = window
        self._waiting: deque[FrozenSegment] = deque()
        self._in_flight: dict[int, FrozenSegment] = {}
        self._stored: dict[int, FrozenSegment] = {}
        self._next_frozen = first_seq
        self.committed_end = first_seq
        """The first seq not committed."""
        self.fenced_at: int | None = None
        self.backlog_bytes = 0
        """Bytes frozen and not committed yet."""

    @property
    def busy_count(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def is_idle(self) -> bool:
        return self.committed_end == self._next_frozen

    def has_slot(self, *, by_size: bool) -> bool:
        """Whether a segment frozen now could leave at once."""
        return self.busy_count < (self.window.by_size if by_size else self.window.by_interval)

    def freeze(self, segment: FrozenSegment) -> None:
        assert segment.seq == self._next_frozen, f"{segment.seq} is not {self._next_frozen}"
        self._next_frozen += 1
        self._waiting.append(segment)
        self.backlog_bytes += segment.size_bytes

    def start(self) -> FrozenSegment | None:
        """The next segment to put, if one may leave now."""
        if not self._waiting or len(self._in_flight) >= self.window.by_size:
            return None
        if self.fenced_at is not None:
            return None
        segment = self._waiting.popleft()
        self._in_flight[segment.seq] = segment
        return segment

    def store(self, seq: int) -> list[FrozenSegment]:
        """`seq` is stored. Returns the segments that this commits, in order."""
        self._stored[seq] = self._in_flight.pop(seq)
        committed = []
        while self.committed_end in self._stored:
            if self.fenced_at is not None and self.committed_end >= self.fenced_at:
                break
            segment = self._stored.pop(self.committed_end)
            self.committed_end += 1
            self.backlog_bytes -= segment.size_bytes
            committed.append(segment)
        return committed

    def fence(self, seq: int) -> None:
        """`seq` was found taken: nothing at or above it will ever be committed."""
        self._in_flight.pop(seq, None)
        self.fenced_at = seq if self.fenced_at is None else min(self.fenced_at, seq)

    @property
    def is_finished(self) -> bool:
        """Fenced, and nothing below the fence is still on its way."""
        return self.fenced_at is not None and self.committed_end >= self.fenced_at
