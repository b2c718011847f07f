"""One data file, read through the log's store: its footer, then the row groups that are wanted.

A small file comes in one GET. Of a larger one the footer is a GET, and the wanted columns of each
row group are one, or a few if what lies between them is worth leaving out. A row group of ours is
decoded at once; a larger one, as the table's owner may write it, in parts.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logstore.errors import Corrupt
from logstore.history.forms.snapshot import DataFile
from logstore.ports.objects import BlockingObjectStore

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SMALL_BYTES = 4 << 20
"""Files up to this size are read whole."""

PART_ROWS = 1 << 18
PART_BYTES = 16 << 20
"""Of a row group that are decoded at a time. Those of compaction have half of it at most."""

_FOOTER_BYTES = 64 << 10  # enough for a hundred row groups
_TRAILER_BYTES = 8  # length of the footer, and PAR1
_GAP_BYTES = 1 << 20  # less than this between two columns is read along: a GET costs more


@dataclass(frozen=True, slots=True)
class RowGroup:
    """An epoch range of a file, with the bounds of its offsets, inclusive."""

    file: TableFile
    index: int
    rows: int
    min_offset: int
    max_offset: int
    size_bytes: int
    """Of the wanted columns, not compressed."""
    may_have_raw: bool
    """Whether some row is a batch that could not be decoded."""
    has_all_values: bool
    """Whether the file says that no row's value is null."""

    @property
    def is_large(self) -> bool:
        """Whether it comes in several parts."""
        return self.part_rows < self.rows

    @property
    def part_rows(self) -> int:
        """Rows of a part; rows are taken to be alike in size."""
        return max(1, min(PART_ROWS, self.rows * PART_BYTES // max(self.size_bytes, 1)))

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The wanted columns, or these of them, in the order of rows in the file.

        A part is decoded when it is asked for. The compressed bytes of all are in memory.
        """
        if self.is_large:
            yield from self.file.parts(self.index, columns, self.part_rows)
        else:
            yield self.file.read(self.index, columns)


class TableFile:
    """A data file of the table at `key`, open for some of its columns.

    Raises `NotFound`: deleted since, a newer snapshot names others. `Corrupt`: not Parquet.
    """

    def __init__(
        self, store: BlockingObjectStore, table: str, file: DataFile, columns: Sequence[str]
    ) -> None:
        self._key = f"{table}/{file.path}"
        self._columns = [*columns]
        self._bytes = _Fetched(store, self._key, file.size_bytes)
        self._data = file
        self._opened = self._open()

    def row_groups(self) -> Iterator[RowGroup]:
        metadata = self._opened.metadata
        names = {column.path: i for i, column in enumerate(self._opened.schema)}
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            low, high = self._bounds(group, names.get("offset"))
            if low is None or high is None:
                low, high = self._data.min_offset, self._data.max_offset
            size_bytes = sum(
                group.column(i).total_uncompressed_size
                for i in self._wanted_columns(names, self._columns)
            )
            raw = _statistics(group, names.get("raw_batch"))
            may_have_raw = raw is None or not raw.has_null_count or raw.null_count < group.num_rows
            values = _statistics(group, names.get("value"))
            has_values = values is not None and values.has_null_count and values.null_count == 0
            yield RowGroup(
                self, index, group.num_rows, low, high, size_bytes, may_have_raw, has_values
            )

    def read(self, index: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The wanted columns of a row group, or these of them, in the order they were asked for."""
        import pyarrow as pa

        named = self._fetch(index, columns)
        try:
            rows = self._opened.read_row_group(index, columns=named, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        return self._completed(rows, named)

    def parts(
        self, index: int, columns: Sequence[str] | None, part_rows: int
    ) -> Iterator[pa.Table]:
        """As `read`, so many rows at a time."""
        import pyarrow as pa

        named = self._fetch(index, columns)
        batches = self._opened.iter_batches(part_rows, [index], named, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                raise self._unreadable(error) from error
            if batch is None:
                return
            yield self._completed(pa.Table.from_batches([batch]), named)

    def _fetch(self, index: int, columns: Sequence[str] | None) -> list[str]:
        """Gets the bytes of a row group's columns; their names."""
        group = self._opened.metadata.row_group(index)
        names = {column.path: i for i, column in enumerate(self._opened.schema)}
        named = [*(self._columns if columns is None else columns)]
        wanted = [group.column(i) for i in self._wanted_columns(names, named)]
        self._bytes.fetch([_place(column) for column in wanted])
        return named

    def _completed(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        for name in set(columns) - set(rows.column_names):  # Delta's way to say null
            rows = rows.append_column(name, pa.nulls(rows.num_rows))
        return self._with_offsets(rows.select(columns))

    def _unreadable(self, error: Exception) -> Corrupt:
        return Corrupt(f"cannot read a data file: key={self._key} error={error}")

    def _with_offsets(self, rows: pa.Table) -> pa.Table:
        """The rows, every one of which has an offset. Raises `Corrupt`."""
        import pyarrow as pa

        offsets = rows["offset"]
        if offsets.type != pa.int64() or offsets.null_count:
            raise Corrupt(
                f"a data file has rows without an offset: key={self._key} "
                f"type={offsets.type} nulls={offsets.null_count} rows={rows.num_rows}"
            )
        return rows

    def _open(self) -> pq.ParquetFile:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(
                pa.PythonFile(self._bytes, mode="r"),
                pre_buffer=False,  # what is wanted is in memory already
                coerce_int96_timestamp_unit="us",  # Spark's; in ns they would end in 2262
            )
        except (pa.ArrowException, OSError) as error:
            raise Corrupt(f"not a data file: key={self._key} error={error}") from error

    def _bounds(self, group: Any, column: int | None) -> tuple[int | None, int | None]:
        statistics = _statistics(group, column)
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
            return None, None  # a column of another type is refused when it is read
        return statistics.min, statistics.max

    def _wanted_columns(self, names: dict[str, int], columns: Sequence[str]) -> list[int]:
        """Leaves of the wanted columns: `headers` has two."""
        return [i for path, i in names.items() if path.partition(".")[0] in columns]


def _statistics(group: Any, column: int | None) -> Any:
    return None if column is None else group.column(column).statistics


def _place(column: Any) -> tuple[int, int]:
    """Where a column chunk lies: [start, end)."""
    start: int = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        start = min(start, column.dictionary_page_offset)
    return start, start + column.total_compressed_size


class _Fetched(io.RawIOBase):
    """The file that Arrow reads, of blocks that were fetched before; more are got when needed."""

    def __init__(self, store: BlockingObjectStore, key: str, size_bytes: int) -> None:
        self._store = store
        self._key = key
        self._size_bytes = size_bytes
        self._at = 0
        self._blocks: list[tuple[int, memoryview]] = []
        if size_bytes <= SMALL_BYTES:
            self._end: tuple[int, memoryview] = 0, memoryview(store.get(key))
        else:
            self._end = self._footer()

    def fetch(self, places: Sequence[tuple[int, int]]) -> None:
        """Gets these epoch ranges, and forgets what was got before."""
        self._blocks = []
        for start, end in _joined(places):
            if start < self._end[0]:
                self._blocks.append((start, self._get(start, end)))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> memoryview:
        """Without a copy, which Arrow does not need."""
        end = self._size_bytes if size < 0 else min(self._at + size, self._size_bytes)
        start, self._at = self._at, max(self._at, end)
        for at, block in (*self._blocks, self._end):
            if at <= start and end <= at + len(block):
                return block[start - at : end - at]
        return self._get(start, end)

    def _footer(self) -> tuple[int, memoryview]:
        start = self._size_bytes - _FOOTER_BYTES
        tail = self._get(start, self._size_bytes)
        length = int.from_bytes(tail[-_TRAILER_BYTES : -_TRAILER_BYTES + 4], "little")
        whole = length + _TRAILER_BYTES
        if _FOOTER_BYTES < whole <= self._size_bytes:
            start = self._size_bytes - whole
            tail = self._get(start, self._size_bytes)
        return start, tail

    def _get(self, start: int, end: int) -> memoryview:
        data = self._store.get_range(self._key, start, end - start)
        if len(data) != end - start:
            raise Corrupt(f"a data file is short: key={self._key} wanted={end} size={start}")
        return memoryview(data)


def _joined(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Epoch ranges in order; those with little between them are one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if joined and start - joined[-1][1] < _GAP_BYTES:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
