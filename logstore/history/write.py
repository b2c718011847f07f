"""Rows of one partition → data files of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstore.history.snapshot import DataFile
from logstore.objects.store import BlockingObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

FILE_BYTES_MAX = 128 << 20
ROW_GROUP_BYTES = 8 << 20


class TableWriter:
    """Writes rows of one partition, offsets rising, as files of `file_bytes_max` bytes or less.

    `run` and `number` make the keys unique: no two writers of a run have the same number. At most
    one file is in memory, compressed, and one row group that is not.
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
    ) -> None:
        raise NotImplementedError

    def write(self, rows: pa.RecordBatch) -> None:
        """Rows with the columns of `columns.TABLE_COLUMNS`. Raises `Invalid` for others."""
        raise NotImplementedError

    def close(self) -> list[DataFile]:
        """What was written, all of it stored; empty if there was no row."""
        raise NotImplementedError
