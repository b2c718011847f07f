"""Records of a table by their time: files by Delta's statistics, then the rows themselves.

Timestamps need not rise with offsets, and files may overlap, so a file is passed over only where
its statistics say that nothing in it could be the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from logstore.formats.offset_range import OffsetRange
from logstore.history.forms.snapshot import DataFile
from logstore.history.read import read_rows
from logstore.ports.objects import BlockingObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("offset", "timestamp_ms")
"""They lie side by side: one GET for each row group that is looked through."""

EPOCH = "leader_epoch"
NO_EPOCH = -1
ANY_TIME = 2**63 - 1
"""The maximum time of a file without statistics."""


class TimedRecord(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def first_at_or_after(
    store: BlockingObjectStore, wanted: OffsetRange, files: Sequence[DataFile], timestamp: int
) -> TimedRecord | None:
    """The first record of `files`, which come by smallest offset, at or after `timestamp` (ms).

    Raises `NotFound` where a file is gone.
    """
    best = _first_at_or_after(store, wanted, files, timestamp)
    return None if best is None else _with_epoch(store, wanted, best)


def first_offset_at_or_after(
    store: BlockingObjectStore, wanted: OffsetRange, files: Sequence[DataFile], timestamp: int
) -> int | None:
    """As `first_at_or_after`, without the GET for its leader epoch."""
    best = _first_at_or_after(store, wanted, files, timestamp)
    return None if best is None else best.offset


def _first_at_or_after(
    store: BlockingObjectStore, wanted: OffsetRange, files: Sequence[DataFile], timestamp: int
) -> _FoundRow | None:
    import pyarrow.compute as pc

    since = _scalar(timestamp)
    best: _FoundRow | None = None
    for file in files:
        end = wanted.end if best is None else best.offset
        if file.min_offset >= end:
            break
        if _latest_possible(file) < timestamp:
            continue
        for rows in _rows(store, wanted, file, end):
            matches = rows.filter(pc.greater_equal(rows.column("timestamp_ms"), since))
            if matches.num_rows:
                best = _found(file, matches, 0)
                break
    return best


def latest(
    store: BlockingObjectStore, wanted: OffsetRange, files: Sequence[DataFile]
) -> TimedRecord | None:
    """The record of `files` with the largest timestamp, the first of several."""
    import pyarrow.compute as pc

    best: _FoundRow | None = None
    for file in sorted(files, key=_latest_possible, reverse=True):
        if best is not None and _latest_possible(file) < best.timestamp:
            break
        for rows in _rows(store, wanted, file, wanted.end):
            largest = pc.max(rows.column("timestamp_ms"))
            if not largest.is_valid:
                continue
            number = pc.index(rows.column("timestamp_ms"), largest).as_py()
            row = _found(file, rows, number)
            if best is None or (-row.timestamp, row.offset) < (-best.timestamp, best.offset):
                best = row
    return None if best is None else _with_epoch(store, wanted, best)


class _FoundRow(NamedTuple):
    file: DataFile
    offset: int
    timestamp: int


def _rows(
    store: BlockingObjectStore, wanted: OffsetRange, file: DataFile, end: int
) -> Iterator[pa.RecordBatch]:
    topic_id, partition = wanted.partition
    start, end = max(wanted.start, file.min_offset), min(end, file.max_offset + 1)
    return read_rows(store, topic_id, [file], partition, start, end, COLUMNS)


def _found(file: DataFile, rows: pa.RecordBatch, number: int) -> _FoundRow:
    offset, timestamp = (rows.column(name)[number].as_py() for name in COLUMNS)
    return _FoundRow(file, offset, timestamp)


def _with_epoch(store: BlockingObjectStore, wanted: OffsetRange, row: _FoundRow) -> TimedRecord:
    file, offset, timestamp = row
    topic_id, partition = wanted.partition
    rows = read_rows(store, topic_id, [file], partition, offset, offset + 1, [EPOCH])
    epochs = [some.column(EPOCH)[0].as_py() for some in rows]
    epoch = epochs[0] if epochs and epochs[0] is not None else NO_EPOCH
    return TimedRecord(offset, timestamp, epoch)


def _scalar(value: int) -> pa.Scalar:
    """As Arrow's own would, but that loads pandas where it is installed: a second, and 40 MB."""
    import pyarrow as pa

    data = pa.py_buffer(value.to_bytes(8, sys.byteorder, signed=True))
    return pa.Array.from_buffers(pa.int64(), 1, [None, data])[0]


def _latest_possible(file: DataFile) -> int:
    return ANY_TIME if file.max_timestamp_ms is None else file.max_timestamp_ms
