"""Questions that a broker can answer only by decoding one batch."""

from logstore.records.batch import read_header
from logstore.records.crc32c import Buffer
from logstore.records.decode import decode_records

LOOKUP_BYTES_MAX = 64 << 20  # decompressed; no producer's batch comes near it by accident


def first_record_at_or_after(
    batch: Buffer, timestamp: int, *, max_bytes: int = LOOKUP_BYTES_MAX
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the first record with at least `timestamp`; None without one.

    `max_bytes` bounds the decompressed payload. This and the others raise `CorruptBatch`.
    """
    base_offset = read_header(batch, 0, len(batch)).base_offset
    for record in decode_records(batch, max_bytes=max_bytes):
        if record.timestamp >= timestamp:
            return base_offset + record.offset_delta, record.timestamp
    return None


def record_with_max_timestamp(
    batch: Buffer, *, max_bytes: int = LOOKUP_BYTES_MAX
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the latest record, the first of equals; None in an empty batch.

    Looks at the records: a producer may have written any max timestamp in the header.
    """
    base_offset = read_header(batch, 0, len(batch)).base_offset
    records = decode_records(batch, max_bytes=max_bytes)
    if not records:
        return None
    latest = max(records, key=lambda record: record.timestamp)
    return base_offset + latest.offset_delta, latest.timestamp


def has_null_key(batch: Buffer, *, max_bytes: int = LOOKUP_BYTES_MAX) -> bool:
    """Whether a compacted topic must refuse the batch."""
    return any(record.key is None for record in decode_records(batch, max_bytes=max_bytes))
