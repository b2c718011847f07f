"""Data files of one partition → its rows in offset order → Kafka's record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from logstore.history.snapshot import DataFile
from logstore.objects.store import BlockingObjectStore
from logstore.records.batch import Codec

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 10_000
BYTES_MAX = 8 << 20
BATCH_BYTES_MAX = 1 << 20

BATCH_COLUMNS = (
    *("offset", "timestamp_ms", "timestampType", "key", "value", "headers"),
    *("leader_epoch", "raw_batch"),
)
"""What `batches_of` needs of the rows it is given."""


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
) -> Iterator[pa.RecordBatch]:
    """Rows with offsets [start, end), rising, each offset once, in batches within both limits.

    `columns` are of `columns.TABLE_COLUMNS`, in any order. `files` are what `Snapshot.files_for`
    gave. Raises `NotFound` with the path: take a newer snapshot; `Corrupt`: not a Parquet file.
    """
    raise NotImplementedError


def batches_of(
    rows: Iterable[pa.RecordBatch],
    compression: Codec = "lz4",
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[bytes]:
    """Kafka batches of the rows, which have `BATCH_COLUMNS`: same offsets, times, headers, epochs.

    No batch has more than `bytes_max` bytes before compression unless it is of one record; leader
    epochs and kinds of timestamp are never mixed in one. A `raw_batch` comes as it was stored.
    """
    raise NotImplementedError
