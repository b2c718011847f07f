"""When a coordinator appends its live keys again, so that its log may start there. Pure.

A new leader reads the partition from log start: its records, and every segment that holds any. Both
are bounded here. Segments cost a GET each and hold others' batches too, so they count even if each
has one small commit; rewriting costs bytes in segments that are written anyway.

A chain is trimmed up to the first segment that any partition needs. A quiet partition's may be of
long ago, and hold all segments of the others since then: so its keys are appended again, too.
"""

from dataclasses import dataclass

RECORDS_FLOOR = 4096
SEGMENTS_FLOOR = 128
LIVE_PER_SEGMENT = 64
"""A rewrite of many keys may wait for more segments."""
HELD_SEGMENTS_MAX = 4096
"""Behind the partition's first record; one more for each live key, so that rewriting costs at most
a record for each segment."""


@dataclass(slots=True)
class LogShape:
    """Records and segments of the partition from log start on."""

    record_count: int = 0
    segment_count: int = 0
    last_seq: int = -1
    first_seq: int | None = None
    """Of the leader's chain: that of the first record. Where that is in an earlier chain, the one
    at which this leader had loaded it."""

    def appended(self, records: int, seq: int) -> None:
        if self.first_seq is None:
            self.first_seq = seq
        self.record_count += records
        if seq != self.last_seq:
            self.last_seq = seq
            self.segment_count += 1

    def found(self, records: int) -> None:
        """A batch from before: counted as a segment of its own, which it may not be."""
        self.record_count += records
        self.segment_count += 1


def is_due(shape: LogShape, live_count: int) -> bool:
    dead = shape.record_count - live_count
    if dead > max(live_count, RECORDS_FLOOR):
        return True
    segments_max = SEGMENTS_FLOOR + live_count // LIVE_PER_SEGMENT
    return shape.segment_count > segments_max and dead > 0


def holds_back(shape: LogShape, live_count: int, end_seq: int) -> bool:
    """Whether segments of others wait for this partition; `end_seq` is the end of the chain."""
    if shape.first_seq is None or not shape.record_count:
        return False
    return end_seq - shape.first_seq > HELD_SEGMENTS_MAX + live_count
