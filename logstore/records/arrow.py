"""Record batches as Arrow record batches, for the Spark source and the history writer.

`records.arrow_schema` lists the columns; they come in the order asked for. Asking for `raw_batch`
means that a batch whose payload cannot be decoded becomes one row at its base offset with all its
bytes there and null elsewhere; otherwise it raises. Damage that the CRC shows raises always: such
bytes are not what a producer sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from logstore.errors import Invalid
from logstore.records import native
from logstore.records.arrow_native import decode_natively
from logstore.records.arrow_pure import decode_purely
from logstore.records.arrow_schema import KAFKA_COLUMNS, arrow_schema
from logstore.records.crc32c import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KAFKA_COLUMNS", "arrow_schema", "decode_to_arrow"]

_OFFSET_MAX = 2**63 - 1
INFLATED_BYTES_MAX = 128 * 1024 * 1024
"""Maximum decompressed size of a batch where Spark reads the log or compaction moves it. Above
Kafka's default `socket.request.max.bytes` of 100 MiB, which bounds an uncompressed batch. Brokers
do not decompress what they append (only gzip's and lz4's records would tell their size)."""

_LARGE_BYTES = 1 << 30  # so that no sum of lengths leaves Arrow's 32 bits


def decode_to_arrow(
    batches: Iterable[Buffer],
    *,
    start: int,
    end: int,
    columns: Sequence[str] = KAFKA_COLUMNS,
    rows_max: int,
    bytes_max: int,
    payload_bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """Rows of the records with offsets [start, end), as few and large as the limits allow.

    Each of `batches` is one whole batch of one partition, in offset order; control batches give no
    rows. No result has more than `rows_max` rows, or more than `bytes_max` bytes unless it is one
    row. `payload_bytes_max` bounds what one batch decompresses to. Raises `CorruptBatch`, and
    `Invalid` for batches out of order. Batches are held until their rows are yielded.
    """
    if min(rows_max, bytes_max) < 1 or max(bytes_max, payload_bytes_max) > _LARGE_BYTES:
        raise Invalid(f"limits out of range: {rows_max=} {bytes_max=} {payload_bytes_max=}")
    decode = decode_purely if native.codec is None else decode_natively
    start, end = (min(max(offset, 0), _OFFSET_MAX) for offset in (start, end))
    yield from decode(
        batches, start, end, arrow_schema(columns), rows_max, bytes_max, payload_bytes_max
    )
