"""For how long records have waited for their topics' tables, as seen from reading to reading. Pure.

At each reading a partition has an end and a table end. The end of one reading is kept as a mark
until the table has passed it: so long at least has the record below it waited. The figure begins at
0 with each leadership, and is short by the time between two readings.
"""

from typing import NamedTuple

from logstore.formats.topic_partition import TopicPartition


class WaitMark(NamedTuple):
    """`end` was the end of a partition at `seen_s`."""

    seen_s: float
    end: int


class TableWaits:
    """Keeps a mark for each partition of the last reading."""

    def __init__(self) -> None:
        self._marks: dict[TopicPartition, WaitMark] = {}
        self._seen: dict[TopicPartition, WaitMark] = {}

    def begin(self) -> None:
        """A reading begins; one that was not finished is forgotten."""
        self._seen = {}

    def add(self, key: TopicPartition, table_end: int, end: int, now_s: float) -> float:
        """Seconds for which the oldest record that is not in the table has waited, at least."""
        mark = self._marks.get(key)
        if mark is None or mark.end <= table_end:
            mark = WaitMark(now_s, end)
        self._seen[key] = mark
        return now_s - mark.seen_s if table_end < end else 0.0

    def finish(self) -> None:
        """All partitions were added: marks of others go."""
        self._marks = self._seen
