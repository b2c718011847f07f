"""Resolves objects deleted since a task was planned: reads the rows, then the table.

Safety rule 6: an absent segment is neither a tail nor an end. Its offsets have moved to the topic's
table, or they, or the topic, went by retention, or nothing of this task lay in it, or it should be
there. A data file of a table that is gone was merged into others. Spark's executors run it, which
know the log's URL and nothing else.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, Protocol

from logstore.errors import Corrupt, Refused
from logstore.formats.offset_range import OffsetRange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.partitions.lookup import NotListed
from logstore.reading.direct.reader import LogReader
from logstore.reading.direct.snapshots import OpenTables, SnapshotCache, open_tables
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.table_ranges import TableRange, table_range
from logstore.reading.planning.tasks import SeqRange, Storage
from logstore.wiring.open import open_readable

REMEDY = "to go on with what is left, set failOnDataLoss to false"
"""Advice for users of Spark about records that are gone; other readers have other remedies."""


class Rest(NamedTuple):
    """The rest of a seq range above a segment that is gone: first the part that tables have."""

    history: tuple[TableRange, ...]
    seq_range: SeqRange | None


class Missing(Protocol):
    """Finds the current location. Both may raise `Refused` for records that are lost, `Corrupt` for
    records that should exist."""

    def segment(
        self, seq_range: SeqRange, gone: SegmentGone, reached: Mapping[SegmentRange, int]
    ) -> Rest:
        """`reached` is the next offset by segment range, where anything of it was read."""
        ...

    def file(self, wanted: TableRange, start: int) -> TableRange | None:
        """Where offsets of `wanted` from `start` on are now; None: they need not be read."""
        ...


class PartitionRows(Protocol):
    """The calls needed of a `LogReader`."""

    def partition_row(self, key: TopicPartition) -> PartitionRow | None: ...

    def segment_ranges(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> list[SegmentRange]: ...


class NewestTables(Protocol):
    """The calls needed of `SnapshotCache`."""

    def newest(self, topic_id: bytes) -> Snapshot | None: ...


class Resolver:
    """`Missing` for one task; opens registry and tables only when they are needed.

    `topics` are names by id. `remedy` ends the error about records that are gone.
    """

    def __init__(
        self,
        url: str,
        storage: Storage,
        topics: Mapping[bytes, str],
        *,
        fail_on_data_loss: bool,
        remedy: str = REMEDY,
        open_tables: OpenTables = open_tables,
    ) -> None:
        self._url = url
        self._storage = dict(storage)
        self._topics = topics
        self._fail_on_data_loss = fail_on_data_loss
        self._remedy = remedy
        self._snapshots = SnapshotCache(lambda: open_tables(url, self._storage))

    def segment(
        self, seq_range: SeqRange, gone: SegmentGone, reached: Mapping[SegmentRange, int]
    ) -> Rest:
        with self._search() as search:
            return search.segment(seq_range, gone, reached)

    def file(self, wanted: TableRange, start: int) -> TableRange | None:
        with self._search() as search:
            return search.file(wanted, start)

    @contextmanager
    def _search(self) -> Iterator["Search"]:
        log = open_readable(self._url, self._storage)
        try:
            rows = LogReader(log)
            yield Search(
                rows,
                self._snapshots,
                self._topics,
                fail_on_data_loss=self._fail_on_data_loss,
                remedy=self._remedy,
            )
        finally:
            log.close()


class Search:
    """The decisions, with rows and tables as they are now: rows are read before tables."""

    def __init__(
        self,
        rows: PartitionRows,
        tables: NewestTables,
        topics: Mapping[bytes, str],
        *,
        fail_on_data_loss: bool,
        remedy: str = REMEDY,
    ) -> None:
        self._rows = rows
        self._tables = tables
        self._topics = topics
        self._fail_on_data_loss = fail_on_data_loss
        self._remedy = remedy
        self._snapshots: dict[bytes, Snapshot | None] = {}

    def segment(
        self, seq_range: SeqRange, gone: SegmentGone, reached: Mapping[SegmentRange, int]
    ) -> Rest:
        history: list[TableRange] = []
        left: list[SegmentRange] = []
        following = seq_range.last_seq + 1
        for segments in seq_range.segment_ranges:
            key, start, end = segments.offsets
            start = reached.get(segments, start)
            if segments.last_seq < gone.seq or start >= end:
                continue
            row = self._rows.partition_row(key)
            start = self._readable(key, row, start, end)
            if row is None or start >= end:
                continue
            part = self._in_table(key, start, end)
            if part is not None:
                history.append(part)
                start = part.offsets.end
            if start < end:
                left_over = OffsetRange(key, start, end)
                following = min(following, self._first_seq(gone, seq_range, row, left_over))
                left.append(replace(segments, offsets=left_over))
        if not left:
            return Rest(tuple(history), None)
        rest = replace(seq_range, first_seq=following, segment_ranges=tuple(left))
        return Rest(tuple(history), rest)

    def file(self, wanted: TableRange, start: int) -> TableRange | None:
        key, _, end = wanted.offsets
        row = self._rows.partition_row(key)
        start = self._readable(key, row, start, end)
        if row is None or start >= end:
            return None
        table_part = self._in_table(key, start, end)
        if table_part is None or table_part.offsets.end < end:
            raise Corrupt(
                f"a table has lost its end: topic={self._topics[key.topic_id]} "
                f"partition={key.partition} offset={start} to {end - 1}; was it overwritten?"
            )
        return table_part

    def _in_table(self, key: TopicPartition, start: int, end: int) -> TableRange | None:
        """As `table_range`. Raises `Refused` if records from `start` on were deleted before the
        table was read: the gap they leave there looks like one of control batches.
        """
        table_part = table_range(self._snapshot(key), key.partition, start, end)
        if table_part is not None and self._fail_on_data_loss:
            self._readable(key, self._rows.partition_row(key), start, end)
        return table_part

    def _readable(self, key: TopicPartition, row: PartitionRow | None, start: int, end: int) -> int:
        """`start`, or log start if that is above and the query may go on there."""
        log_start = end if row is None else row.log_start
        if log_start > start and self._fail_on_data_loss:
            why = "topic was deleted" if row is None else f"log start is {log_start} now"
            raise Refused(
                f"records of this query are gone: topic={self._topics[key.topic_id]} "
                f"partition={key.partition} offset={start}: {why}; {self._remedy}"
            )
        return max(start, log_start)

    def _first_seq(
        self,
        gone: SegmentGone,
        seq_range: SeqRange,
        row: PartitionRow,
        offsets: OffsetRange,
    ) -> int:
        """Where `offsets` begin in the seq range; above the segment that is gone."""
        key, start, end = offsets
        try:
            ranges = self._rows.segment_ranges(key, row, start, end)
        except (Corrupt, NotListed) as fault:  # the newest table, read after the row, has it not
            raise self._missing(gone, key, start) from fault
        first_seq = min(segments.first_seq for segments in ranges)
        if not gone.seq < first_seq <= seq_range.last_seq:
            raise self._missing(gone, key, start)
        return first_seq

    def _missing(self, gone: SegmentGone, key: TopicPartition, start: int) -> Corrupt:
        return Corrupt(
            f"a segment is missing: chain={gone.chain} seq={gone.seq} "
            f"topic={self._topics[key.topic_id]} partition={key.partition} offset={start}; "
            "see what the log holds with: logstore inspect"
        )

    def _snapshot(self, key: TopicPartition) -> Snapshot | None:
        if key.topic_id not in self._snapshots:
            self._snapshots[key.topic_id] = self._tables.newest(key.topic_id)
        return self._snapshots[key.topic_id]
