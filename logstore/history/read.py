"""Data files of one partition → its rows in offset order.

Files and row groups come with bounds of their offsets. Where these do not overlap, which is how
compaction writes, one row group at a time is read and passed on, in parts if it is large. Where
they do, after an OPTIMIZE or a Z-order by the table's owner, all that overlap are read, a window of
offsets at a time if they are too much together, and sorted; an offset that is there twice comes
once.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from logstore.errors import Corrupt, Invalid
from logstore.history.batches import BATCH_BYTES_MAX, BATCH_COLUMNS, batches_of
from logstore.history.forms import names
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.history.forms.snapshot import DataFile
from logstore.history.parquet_file import RowGroup, TableFile
from logstore.ports.objects import BlockingObjectStore
from logstore.records.arrow import arrow_schema
from logstore.records.batch import read_header
from logstore.runners.retrying import RetryingStore

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BATCH_BYTES_MAX",
    "BATCH_COLUMNS",
    "BYTES_MAX",
    "ROWS_MAX",
    "batches_of",
    "read_rows",
]

ROWS_MAX = 10_000
BYTES_MAX = 8 << 20

_TOGETHER_BYTES = 64 << 20
_TOGETHER_ROWS = 1 << 20
"""Of overlapping row groups, uncompressed: about the memory in use at a time."""


def read_rows(
    store: BlockingObjectStore,
    topic_id: bytes,
    files: Sequence[DataFile],
    partition: int,
    start: int,
    end: int,
    columns: Sequence[str],
    *,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    whole_batches: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Rows with offsets [start, end), rising, each offset once; Arrow batches within both limits.

    `columns` are of `columns.TABLE_COLUMNS`, in any order; `files` are what `Snapshot.files_for`
    gave. An Arrow batch is above `bytes_max` only if it is one row. With `whole_batches`, for which
    `raw_batch` must be wanted, the row of a Kafka batch that could not be decoded and holds `start`
    comes first, although the row's own offset lies before. Files are opened when their turn comes.

    Raises `NotFound` with the key: deleted since, take a newer snapshot; `Corrupt`: not Parquet, or
    columns of other types; `Invalid`: unknown columns, or limits below 1.
    """
    if not set(columns) <= set(TABLE_COLUMNS) or min(rows_max, bytes_max) < 1:
        raise Invalid(f"limits out of range: columns={','.join(columns)} {rows_max=} {bytes_max=}")
    if whole_batches and "raw_batch" not in columns:
        raise Invalid("whole batches need the column raw_batch")
    reading = _Reading(RetryingStore.of(store), names.table_key(topic_id), columns)
    ordered = sorted(
        (file for file in files if file.partition == partition),
        key=lambda file: (file.min_offset, file.max_offset),
    )
    tables = reading.rows(ordered, start, end, whole_batches)
    for table in tables:
        for rows in table.select(list(columns)).combine_chunks().to_batches():
            yield from _cut(_typed(rows, columns, topic_id), rows_max, bytes_max)


def _typed(rows: pa.RecordBatch, columns: Sequence[str], topic_id: bytes) -> pa.RecordBatch:
    """Of the types of our columns, whatever the engine that wrote them. Raises `Corrupt`."""
    import pyarrow as pa

    try:
        return rows.cast(arrow_schema(columns))
    except pa.ArrowException as error:
        raise Corrupt(
            f"rows of a table are of other types: topic={topic_id.hex()} error={error}"
        ) from error


class _Reading:
    """One call: a store, a table, and the columns that are read, which include `offset`."""

    def __init__(self, store: RetryingStore, table: str, columns: Sequence[str]) -> None:
        self._store = store
        self._table = table
        self._columns = [*columns] if "offset" in columns else ["offset", *columns]

    def rows(
        self, files: Sequence[DataFile], start: int, end: int, whole_batches: bool
    ) -> Iterator[pa.Table]:
        wanted = [file for file in files if file.min_offset < end and file.max_offset >= start]
        if whole_batches:
            yield from self._holding(files, start)
        for groups in self._clusters(wanted, start, end):
            if len(groups) == 1 and groups[0].is_large and _is_in_order(groups[0]):
                tables = (_between(part, start, end) for part in groups[0].parts())
            else:
                windows = _windows(groups, start, end)
                tables = (_window(groups, low, high) for low, high in windows)
            yield from (table for table in tables if table is not None and table.num_rows)

    def _clusters(
        self, files: Sequence[DataFile], start: int, end: int
    ) -> Iterator[list[RowGroup]]:
        """Row groups that overlap together, in order; a file is opened when it may be next."""
        waiting = list(reversed(files))
        heap: list[tuple[int, int, RowGroup]] = []
        opened = 0
        cluster: list[RowGroup] = []
        high = -1
        while heap or waiting or cluster:
            upto = high if cluster else (heap[0][0] if heap else waiting[-1].min_offset)
            while waiting and waiting[-1].min_offset <= upto:
                for group in self._open(waiting.pop()):
                    if group.min_offset < end and group.max_offset >= start:
                        opened += 1
                        heapq.heappush(heap, (group.min_offset, opened, group))
            if heap and (not cluster or heap[0][0] <= high):
                group = heapq.heappop(heap)[2]
                cluster.append(group)
                high = max(high, group.max_offset)
            elif cluster:
                yield cluster
                cluster, high = [], -1

    def _open(self, file: DataFile) -> Iterator[RowGroup]:
        return TableFile(self._store, self._table, file, self._columns).row_groups()

    def _holding(self, files: Sequence[DataFile], start: int) -> Iterator[pa.Table]:
        """The batch that could not be decoded and holds `start`, whose row lies before it."""
        import pyarrow.compute as pc

        groups = [
            group
            for file in files
            if file.min_offset < start
            for group in self._open(file)
            if group.min_offset < start and group.may_have_raw
        ]
        for group in sorted(groups, key=lambda group: group.min_offset, reverse=True)[:1]:
            last: pa.Table | None = None
            for rows in group.parts():
                rows = rows.filter(pc.less(rows["offset"], start)).sort_by("offset")
                one = rows.slice(max(0, rows.num_rows - 1))
                if one.num_rows and (last is None or _first_offset(one) > _first_offset(last)):
                    last = one
            raw = None if last is None else last["raw_batch"][0].as_py()
            if raw is not None and read_header(raw, 0, len(raw)).next_offset > start:
                yield last


def _is_in_order(group: RowGroup) -> bool:
    """Whether offsets rise in the whole of it, by reading these alone."""
    before = -1
    for part in group.parts(["offset"]):
        offsets = part["offset"].combine_chunks()
        if len(offsets) and (offsets[0].as_py() <= before or not _rises(offsets)):
            return False
        before = offsets[-1].as_py() if len(offsets) else before
    return True


def _window(groups: Sequence[RowGroup], low: int, high: int) -> pa.Table | None:
    """Rows of all groups with offsets [low, high), in order."""
    return _merged(
        [
            _between(part, low, high)
            for group in groups
            if group.min_offset < high and group.max_offset >= low
            for part in group.parts()
        ]
    )


def _windows(groups: Sequence[RowGroup], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The offsets of a cluster, cut so that what is read at a time stays bounded.

    Offsets are taken to be spread evenly; every window reads its row groups again.
    """
    low = max(start, min(group.min_offset for group in groups))
    high = min(end, max(group.max_offset for group in groups) + 1)
    by_bytes = -(-sum(group.size_bytes for group in groups) // _TOGETHER_BYTES)
    by_rows = -(-sum(group.rows for group in groups) // _TOGETHER_ROWS)
    count = max(by_bytes, by_rows) if len(groups) > 1 or groups[0].is_large else 1
    step = max(1, -(-(high - low) // max(count, 1)))
    for at in range(low, high, step):
        yield at, min(at + step, high)


def _between(rows: pa.Table, low: int, high: int) -> pa.Table:
    """Rows with offsets [low, high); in order if they were."""
    import pyarrow.compute as pc

    offsets = rows["offset"].combine_chunks()
    if not _rises(offsets):
        inside = pc.and_(pc.greater_equal(offsets, low), pc.less(offsets, high))
        return rows.filter(inside)
    values = _as_int64(offsets)
    first = bisect_left(values, low)
    return rows.slice(first, bisect_left(values, high) - first)


def _merged(parts: Sequence[pa.Table]) -> pa.Table | None:
    """All rows by offset, the first of those that have the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [part for part in parts if part.num_rows]
    if not parts:
        return None
    rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
    offsets = rows["offset"].combine_chunks()
    if _rises(offsets):
        return rows
    order = pc.sort_indices(offsets)
    offsets = offsets.take(order)
    fresh = pa.concat_arrays([pa.array([True]), pc.not_equal(offsets[1:], offsets[:-1])])
    return rows.take(order.filter(fresh))


def _first_offset(rows: pa.Table) -> int:
    offset: int = rows["offset"][0].as_py()
    return offset


def _rises(offsets: pa.Array) -> bool:
    import pyarrow.compute as pc

    rising: bool = pc.all(pc.greater(offsets[1:], offsets[:-1]), min_count=0).as_py()
    return rising


def _as_int64(offsets: pa.Array) -> memoryview:
    values: memoryview = memoryview(offsets.buffers()[1]).cast("q")
    return values[offsets.offset : offsets.offset + len(offsets)]


def _cut(rows: Any, rows_max: int, bytes_max: int) -> Iterator[Any]:
    """Pieces of equal length, halved where one is too large."""
    count = rows.num_rows
    step = max(1, min(rows_max, count * bytes_max // max(rows.nbytes, 1)))
    if step >= count or count == 1:
        if count:
            yield rows
        return
    for first in range(0, count, step):
        yield from _cut(rows.slice(first, step), rows_max, bytes_max)
