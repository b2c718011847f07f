"""Rows that a topic's table holds, with the source's columns: what segments gave, byte for byte.

A file that is gone was merged into others by the table's owner, and vacuumed: a newer snapshot says
where its rows are. A reader may request one a few times, no more: files that keep being deleted
while they are read mean a retention of minutes, and such a table cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from logstore.errors import Corrupt, NotFound
from logstore.history.read import read_rows
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.planning.table_ranges import TableRange

if TYPE_CHECKING:
    import pyarrow as pa

RAW_BATCH = "raw_batch"
READS_MAX = 4
"""How often in a row a newer snapshot may name files that are gone, too."""

FindAgain = Callable[[TableRange, int], TableRange | None]
"""(requested range, next offset) → location of the rest; None: it need not be read any more."""


def table_rows(
    store: BlockingObjectStore,
    wanted: TableRange,
    columns: Sequence[str],
    find_again: FindAgain | None,
    *,
    rows_max: int,
    bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """Rows of `wanted` by offset, with `columns` of the table's.

    `find_again` is asked when a file is gone; without it that is `NotFound`. Raises `Corrupt` for a
    batch that could not be decoded when it was moved to the table, unless `raw_batch` is among the
    columns: as for one that lies in a segment.
    """
    names = _with_checks(columns)
    rest: TableRange | None = wanted
    reached, looks = wanted.offsets.start, 0
    while rest is not None:
        try:
            for rows in read_rows(
                store,
                rest.offsets.topic_id,
                rest.files,
                rest.offsets.number,
                reached,
                rest.offsets.end,
                names,
                rows_max=rows_max,
                bytes_max=bytes_max,
            ):
                if RAW_BATCH not in columns:
                    _check_decoded(rows, rest)
                yield rows.select(list(columns))
                reached, looks = rows.column("offset")[-1].as_py() + 1, 0
            return
        except NotFound:
            looks += 1
            if find_again is None or looks > READS_MAX:
                raise
            rest = find_again(rest, reached)
            reached = rest.offsets.start if rest is not None else reached


def _with_checks(columns: Sequence[str]) -> list[str]:
    """The columns to read: also the offset, and whether the batch could be decoded."""
    return [*columns, *(name for name in ("offset", RAW_BATCH) if name not in columns)]


def _check_decoded(rows: pa.RecordBatch, place: TableRange) -> None:
    raw = rows.column(RAW_BATCH)
    if raw.null_count == len(raw):
        return
    offset = rows.column("offset").filter(raw.is_valid())[0].as_py()
    raise Corrupt(
        f"batch cannot be decoded: {place.offsets.partition} offset={offset}; "
        f"a schema with the column {RAW_BATCH} reads its bytes"
    )
