"""When a coordinator appends its live keys again, so that its log may start there. Pure.

A new leader reads the partition from log start: its records, and every segment that holds any. Both
are bounded here. Segments cost a GET each and hold others' batches too, so they count even if each
has one small commit; rewriting costs bytes in segments that are written anyway.
"""

from dataclasses import dataclass

RECORDS_FLOOR = 4096
SEGMENTS_FLOOR = 128
LIVE_PER_SEGMENT = 64
"""A rewrite of many keys may wait for more segments."""


@dataclass(slots=True)
class LogShape:
    """Records and segments of the partition from log start on."""

    record_count: int = 0
    segment_count: int = 0
    last_seq: int = -1

    def appended(self, records: int, seq: int) -> None:
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
