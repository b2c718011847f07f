"""Rows of one partition → data files of its table.

zstd at level 1: half the bytes of lz4 or snappy for a third more CPU; level 3 is no smaller and
half as fast. Offsets and times as differences, the two columns that hardly change by dictionary,
keys and values plain: a dictionary of values that differ is built and thrown away. Measured in
docs/decisions/0011-history-table.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from logstore.errors import AlreadyExists, Invalid
from logstore.history.forms import names
from logstore.history.forms.columns import STATISTICS_COLUMNS, file_schema
from logstore.history.forms.snapshot import DataFile
from logstore.ports.objects import BlockingObjectStore
from logstore.runners.retrying import RetryingStore

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

FILE_BYTES_MAX = 128 << 20
FILE_ROWS_MAX = 4_000_000
"""Rows that hardly differ take a byte each: 128 MiB of them would be too many for other tasks."""
ROW_GROUP_BYTES = 8 << 20
ROW_GROUP_ROWS = 1 << 17

_ZSTD_LEVEL = 1
_BY_DICTIONARY = ["timestampType", "leader_epoch"]
_BY_DIFFERENCE = "DELTA_BINARY_PACKED"


class TableWriter:
    """Writes rows of one partition, offsets rising, as files of about `file_bytes_max` at most, and
    about `FILE_ROWS_MAX` rows.

    A row group holds `row_group_bytes` of rows as they are in memory, or `ROW_GROUP_ROWS`. `run`
    and `number` make the keys unique: a writer of other rows, or of the same rows in another
    attempt, has other keys. At most one file is in memory, compressed, and one row group that is
    not. With `counts_null_values` readers of keys can tell without the values that there is no
    tombstone.
    """

    def __init__(
        self,
        store: BlockingObjectStore,
        topic_id: bytes,
        partition: int,
        run: str,
        number: int,
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        row_group_bytes: int = ROW_GROUP_BYTES,
        compression: str = "zstd",
        counts_null_values: bool = False,
    ) -> None:
        self._store = RetryingStore.of(store)
        self._counts_null_values = counts_null_values
        self._name = (topic_id, partition, run, number)
        self._file_bytes_max = file_bytes_max
        self._row_group_bytes = row_group_bytes
        self._compression = compression
        self._schema = file_schema()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._waiting_rows = 0
        self._next_offset = 0
        self._file: _OpenFile | None = None
        self._written: list[DataFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Rows with the columns of `columns.TABLE_COLUMNS`.

        Raises `Invalid` for others, and for offsets that do not rise.
        """
        if not rows.schema.equals(self._schema):
            raise Invalid(f"not the columns of a data file: {rows.schema.names}")
        if not rows.num_rows:
            return
        self._check_rising(rows)
        for chunk in _chunks(rows, self._row_group_bytes):
            too_large = self._waiting_bytes + chunk.nbytes > self._row_group_bytes
            if too_large or self._waiting_rows + chunk.num_rows > ROW_GROUP_ROWS:
                self._write_row_group()
            self._waiting.append(chunk)
            self._waiting_bytes += chunk.nbytes
            self._waiting_rows += chunk.num_rows
            if self._waiting_bytes >= self._row_group_bytes:  # one row may be 100 MiB: not kept
                self._write_row_group()

    def close(self) -> list[DataFile]:
        """The written files, all of them stored; empty if there was no row."""
        self._write_row_group()
        self._end_file()
        return self._written

    def _check_rising(self, rows: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        offsets = rows.column("offset")
        rising = pc.all(pc.greater(offsets[1:], offsets[:-1]), min_count=0).as_py()
        if offsets.null_count or not rising:
            raise Invalid(f"offsets do not rise: from={offsets[0]} to={offsets[-1]}")
        first: int = offsets[0].as_py()
        if first < self._next_offset:
            raise Invalid(f"offsets do not rise: {self._next_offset - 1} then {first}")
        self._next_offset = offsets[-1].as_py() + 1

    def _write_row_group(self) -> None:
        if not self._waiting:
            return
        if self._file is None:
            self._file = _OpenFile(self._schema, self._compression, self._counts_null_values)
        self._file.write(self._waiting)
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0
        # The next row group is expected to be as large as this one.
        is_full = self._file.size_bytes + self._file.last_group_bytes > self._file_bytes_max
        if is_full or self._file.rows + self._file.last_group_rows > FILE_ROWS_MAX:
            self._end_file()

    def _end_file(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        data = file.close()
        topic_id, partition, run, number = self._name
        span = file.min_offset, file.max_offset + 1
        key = names.data_key(topic_id, partition, *span, run, number)
        if not self._store.create_equal(key, data):
            raise AlreadyExists(
                f"a file of this name holds other rows: key={key}; give each attempt a number"
            )
        self._written.append(
            DataFile(
                path=names.data_path(partition, *span, run, number),
                partition=partition,
                rows=file.rows,
                size_bytes=len(data),
                min_offset=file.min_offset,
                max_offset=file.max_offset,
                min_timestamp_ms=file.min_timestamp_ms,
                max_timestamp_ms=file.max_timestamp_ms,
            )
        )


class _OpenFile:
    """A Parquet file in memory, and what statistics will say of it."""

    def __init__(self, schema: pa.Schema, compression: str, counts_null_values: bool) -> None:
        import pyarrow as pa

        self._sink = pa.BufferOutputStream()
        self._writer = _parquet_writer(self._sink, schema, compression, counts_null_values)
        self.rows = 0
        self.min_offset = 0
        self.max_offset = 0
        self.last_group_bytes = 0
        self.last_group_rows = 0
        self._times: list[int] = []

    @property
    def min_timestamp_ms(self) -> int | None:
        return min(self._times, default=None)

    @property
    def max_timestamp_ms(self) -> int | None:
        return max(self._times, default=None)

    @property
    def size_bytes(self) -> int:
        size_bytes: int = self._sink.tell()
        return size_bytes

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """One row group."""
        import pyarrow as pa
        import pyarrow.compute as pc

        before = self.size_bytes
        rows = pa.Table.from_batches(batches)
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self.last_group_bytes = self.size_bytes - before
        self.last_group_rows = rows.num_rows
        if not self.rows:
            self.min_offset = rows["offset"][0].as_py()
        self.max_offset = rows["offset"][-1].as_py()
        self.rows += rows.num_rows
        times = pc.min_max(rows["timestamp_ms"]).as_py()
        if times["min"] is not None:  # else no row of it could be decoded
            self._times += times["min"], times["max"]

    def close(self) -> memoryview:
        self._writer.close()
        return memoryview(self._sink.getvalue()).cast("B")  # Arrow says signed bytes


def _parquet_writer(
    sink: pa.BufferOutputStream, schema: pa.Schema, compression: str, counts_null_values: bool
) -> pq.ParquetWriter:
    import pyarrow.parquet as pq

    counted = ["raw_batch", "value"] if counts_null_values else ["raw_batch"]

    return pq.ParquetWriter(
        sink,
        schema,
        compression=compression,
        compression_level=_ZSTD_LEVEL if compression == "zstd" else None,
        use_dictionary=_BY_DICTIONARY,
        column_encoding=dict.fromkeys(STATISTICS_COLUMNS, _BY_DIFFERENCE),
        # Of raw_batch and value, how many are null: a reader need not look for any.
        write_statistics=[*STATISTICS_COLUMNS, *counted],
        store_schema=False,
    )


def _chunks(rows: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Halves until each is small enough or one row."""
    if rows.num_rows > ROW_GROUP_ROWS or (rows.num_rows > 1 and rows.nbytes > bytes_max):
        half = rows.num_rows // 2
        yield from _chunks(rows.slice(0, half), bytes_max)
        yield from _chunks(rows.slice(half), bytes_max)
    else:
        yield rows
