"""Keys of a table's rows, for key compaction: values are read only where some may be null.

A value column is most of a file. Files that key compaction wrote say of each row group how many
values are null; where that is none, no value is read. Row groups come in parts of bounded size,
whatever engine wrote the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from logstore.errors import Corrupt
from logstore.history.forms import names
from logstore.history.forms.snapshot import DataFile
from logstore.history.parquet_file import TableFile
from logstore.history.read import read_rows
from logstore.ports.objects import BlockingObjectStore
from logstore.runners.retrying import RetryingStore

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("offset", "key", "value", "raw_batch")
_WITHOUT_VALUES = ("offset", "key", "raw_batch")


def read_keys(
    store: BlockingObjectStore, topic_id: bytes, partition: int, files: Sequence[DataFile]
) -> Iterator[pa.Table]:
    """All rows of the files, each offset once: columns offset, key, is_null, is_raw.

    `is_null`: of the value; `is_raw`: a batch that could not be decoded. Rows of one file come in
    its order. Raises as `read_rows`.
    """
    if len(files) == 1:
        opened = TableFile(RetryingStore.of(store), names.table_key(topic_id), files[0], _COLUMNS)
        for group in opened.row_groups():
            needs_values = group.may_have_raw or not group.has_all_values
            for rows in group.parts(_COLUMNS if needs_values else _WITHOUT_VALUES):
                yield keys_of(rows, topic_id)
        return
    low = min(file.min_offset for file in files)
    high = max(file.max_offset for file in files)
    for rows in read_rows(store, topic_id, files, partition, low, high + 1, _COLUMNS):
        yield keys_of(rows, topic_id)


def keys_of(rows: pa.Table | pa.RecordBatch, topic_id: bytes) -> pa.Table:
    """Columns as of `read_keys`; rows without a column `value` all have one. Raises `Corrupt`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    has_values = "value" in rows.schema.names
    try:
        keys = rows.column("key").cast(pa.binary())
    except pa.ArrowException as error:
        raise Corrupt(
            f"keys of a table are of another type: topic={topic_id.hex()} error={error}"
        ) from error
    nothing = pa.repeat(pa.scalar(False), rows.num_rows)
    return pa.table(
        {
            "offset": rows.column("offset"),
            "key": keys,
            "is_null": pc.is_null(rows.column("value")) if has_values else nothing,
            "is_raw": pc.is_valid(rows.column("raw_batch")),
        }
    )
