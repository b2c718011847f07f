"""Topics' tables as a broker reads them. Blocking: called from threads of `brokers.history`.

Kept from call to call: a snapshot per topic, refreshed when it does not reach far enough, when a
newer version is known, or when a file is gone (the table's owner may vacuum); and cursors,
suspended where a span ended, so that a reader that continues reopens no file.

A file that is gone and still named by the newest version is `NotFound`.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from logstore.errors import NotFound
from logstore.formats.offset_range import OffsetRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import OFFSET_MAX, DataFile, Snapshot
from logstore.history.read import BATCH_COLUMNS, batches_of, read_rows
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.planning.table_batches import Stream, TableBatches
from logstore.reading.table_times import TimedRecord, first_at_or_after, latest
from logstore.records.batch import Codec, read_header

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

BATCH_BYTES = 256 << 10
"""Before compression; so that several fit into what consumers ask for of a partition."""

SAMPLE_BYTES = 64 << 10

READS_MAX = 3
"""Snapshots that are tried while files go missing."""

SNAPSHOTS_MAX = 64


class TableSnapshots(Protocol):
    """The calls needed of `logstore.history.delta.Tables`."""

    def snapshot(
        self, topic_id: bytes, *, version: int | None = None, known: Snapshot | None = None
    ) -> Snapshot | None: ...


class TableRequest(NamedTuple):
    """Offsets of a partition, by `version` of its table or a newer one."""

    offsets: OffsetRange
    version: int


@dataclass(slots=True)
class _Cursor:
    """Batches of one window of files, from where it stands to `end`."""

    batches: Iterator[bytes]
    end: int
    version: int


class TableReader:
    """For any thread. Raises as `Tables` and `read_rows` do."""

    def __init__(
        self, tables: TableSnapshots, store: BlockingObjectStore, *, cursors_max: int
    ) -> None:
        self._tables = tables
        self._store = store
        self._cursors_max = cursors_max
        self._lock = threading.Lock()
        """Held for moments only."""
        self._snapshots: OrderedDict[bytes, Snapshot] = OrderedDict()
        self._refreshing = threading.Lock()
        """Held while a table's log is read: once, however many wait for it."""
        self._cursors: OrderedDict[tuple[Stream, int], _Cursor] = OrderedDict()
        self.refresh_count = 0

    # Batches

    def span(self, stream: Stream, offset: int, version: int, bytes_max: int) -> TableBatches:
        """Batches of the table from `offset` on; an empty span if it does not reach there.

        It ends with the batch that reaches `bytes_max`, or with a file, or where the table does if
        no rows are left up to there.
        """
        partition = TopicPartition(stream.topic_id, stream.partition)
        wanted = TableRequest(OffsetRange(partition, offset, offset + 1), version)
        batches = self._look(
            wanted, lambda snapshot: self._read_run(stream, offset, snapshot, bytes_max)
        )
        return TableBatches(offset, offset, version) if batches is None else batches

    def _read_run(
        self, stream: Stream, offset: int, snapshot: Snapshot, bytes_max: int
    ) -> TableBatches:
        table_end = snapshot.end(stream.partition) or 0
        batches: list[bytes] = []
        bases: list[int] = []
        ends: list[int] = []
        byte_count, position = 0, offset
        cursor = self._suspended(stream, position, snapshot)
        while position < table_end:
            cursor = cursor or _opened(self._store, stream, position, snapshot, table_end)
            for batch in cursor.batches:
                header = read_header(batch, 0, len(batch))
                position = header.next_offset
                batches.append(batch)
                bases.append(header.base_offset)
                ends.append(position)
                byte_count += len(batch)
                if byte_count >= bytes_max:
                    break
            if byte_count >= bytes_max:
                self._suspend(stream, position, cursor)
                break
            position, cursor = max(position, cursor.end), None
            if batches:
                if position < table_end and _has_no_rows_from(snapshot, stream, position):
                    position = table_end
                break
        is_last = position >= table_end
        return TableBatches(
            offset, position, snapshot.version, batches, bases, ends, byte_count, is_last
        )

    def _suspended(self, stream: Stream, position: int, snapshot: Snapshot) -> _Cursor | None:
        with self._lock:
            cursor = self._cursors.pop((stream, position), None)
        return cursor if cursor and cursor.version == snapshot.version else None

    def _suspend(self, stream: Stream, position: int, cursor: _Cursor) -> None:
        with self._lock:
            self._cursors[stream, position] = cursor
            while len(self._cursors) > self._cursors_max:
                self._cursors.popitem(last=False)

    # Records by time

    def first_at_or_after(self, wanted: TableRequest, timestamp: int) -> TimedRecord | None:
        """The first record at or after `timestamp` (ms). Raises `NotFound`: not that far."""
        return self._search(
            wanted, lambda files: first_at_or_after(self._store, wanted.offsets, files, timestamp)
        )

    def latest(self, wanted: TableRequest) -> TimedRecord | None:
        """The record with the largest timestamp, the first of several. Raises the same."""
        return self._search(wanted, lambda files: latest(self._store, wanted.offsets, files))

    def _search(
        self, wanted: TableRequest, look: Callable[[Sequence[DataFile]], TimedRecord | None]
    ) -> TimedRecord | None:
        partition, start, end = wanted.offsets

        def look_at(snapshot: Snapshot) -> tuple[TimedRecord | None]:
            return (look(snapshot.files_for(partition.partition, start, end)),)

        answer = self._look(wanted, look_at)
        if answer is None:
            raise NotFound(
                "the topic's table does not reach to where segments begin: "
                f"{partition} segments_begin={end}"
            )
        return answer[0]

    # Snapshots

    def _look(self, wanted: TableRequest, look: Callable[[Snapshot], T]) -> T | None:
        """`look` at a snapshot that reaches `wanted`, at another where files are gone.

        None: the table does not reach there.
        """
        gone: NotFound | None = None
        version = wanted.version
        for _ in range(READS_MAX):
            snapshot = self._snapshot(wanted._replace(version=version))
            if snapshot is None or (snapshot.end(wanted.offsets.number) or 0) < wanted.offsets.end:
                return None
            if gone is not None and snapshot.version < version:
                break  # there is no newer one than that which names the file
            try:
                return look(snapshot)
            except NotFound as error:
                gone, version = error, snapshot.version + 1
        raise NotFound(f"the topic's table names a file that is gone: {gone}") from gone

    def _snapshot(self, wanted: TableRequest) -> Snapshot | None:
        """The one that is kept if it will do, else the newest, which may not do either."""
        known = self._kept(wanted)
        if known is not None:
            return known
        with self._refreshing:
            known = self._kept(wanted)
            if known is not None:
                return known
            with self._lock:
                before = self._snapshots.get(wanted.offsets.topic_id)
            self.refresh_count += 1
            snapshot = self._tables.snapshot(wanted.offsets.topic_id, known=before)
            with self._lock:
                self._snapshots.pop(wanted.offsets.topic_id, None)
                if snapshot is not None:
                    self._snapshots[wanted.offsets.topic_id] = snapshot
                if len(self._snapshots) > SNAPSHOTS_MAX:
                    self._snapshots.popitem(last=False)
            return snapshot

    def _kept(self, wanted: TableRequest) -> Snapshot | None:
        with self._lock:
            known = self._snapshots.get(wanted.offsets.topic_id)
            if known is None or known.version < wanted.version:
                return None
            if (known.end(wanted.offsets.number) or 0) < wanted.offsets.end:
                return None
            self._snapshots.move_to_end(wanted.offsets.topic_id)
            return known


def _opened(
    store: BlockingObjectStore,
    stream: Stream,
    position: int,
    snapshot: Snapshot,
    table_end: int,
) -> _Cursor:
    end = window_end(snapshot, stream.partition, position, table_end)
    rows = read_rows(
        store,
        stream.topic_id,
        snapshot.files_for(stream.partition, position, end, whole_batches=True),
        stream.partition,
        position,
        end,
        BATCH_COLUMNS,
        whole_batches=True,
    )
    codec = stream.compression
    if codec == "producer":
        codec, rows = _worthwhile(rows)
    return _Cursor(batches_of(rows, codec, BATCH_BYTES), end, snapshot.version)


def _worthwhile(rows: Iterator[pa.RecordBatch]) -> tuple[Codec, Iterator[pa.RecordBatch]]:
    """lz4 if it makes the first values smaller by an eighth; and the rows again.

    It takes most of the time of making a batch, and all of it for nothing where values are random
    or compressed already.
    """
    import pyarrow as pa

    first = next(rows, None)
    if first is None:
        return "none", iter(())
    again = chain((first,), rows)
    values = first.column("value").buffers()[2]
    if values is None:
        return "none", again
    sample = values.slice(0, min(values.size, SAMPLE_BYTES))
    packed = pa.Codec("lz4_raw").compress(sample)
    return "lz4" if packed.size <= sample.size * 7 // 8 else "none", again


def _has_no_rows_from(snapshot: Snapshot, stream: Stream, position: int) -> bool:
    """As far as the bounds of files say; a file without bounds may have some."""
    return not snapshot.files_for(stream.partition, position, OFFSET_MAX)


def window_end(snapshot: Snapshot, partition: int, position: int, table_end: int) -> int:
    """How far one cursor reads: to the end of the files that may hold `position`, else of the next.

    A table may have 100,000 files, and they may overlap; what lies in one window is merged.
    """
    files = snapshot.files_for(partition, position, position + 1)
    ends = [file.max_offset + 1 for file in files if file.has_bounds]
    if not files:
        listed = snapshot.files.get(partition, ())
        number = bisect_left(listed, position, key=lambda file: file.min_offset)
        ends = [listed[number].max_offset + 1] if number < len(listed) else []
    return min(max(ends, default=table_end), table_end)
