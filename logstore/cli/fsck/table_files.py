"""Reads a file of a table whole, as `logstore fsck --data` does: every page of every column."""

from collections.abc import Sequence
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from logstore.errors import Corrupt

OFFSET = "offset"


def read_offsets(data: bytes) -> Sequence[int]:
    """The offsets of its rows, in their order. Raises `Corrupt`."""
    offsets: list[int] = []
    try:
        for batch in pq.ParquetFile(BytesIO(data)).iter_batches():
            offsets += batch.column(OFFSET).to_pylist()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise Corrupt(f"not a readable Parquet file: {error}") from error
    return offsets
