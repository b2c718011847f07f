"""Questions that a broker can answer only by decoding one batch."""

from enum import IntEnum

from logstore.records import native
from logstore.records.batch import read_header
from logstore.records.crc32c import Buffer
from logstore.records.decode import decode_payload, payload_of

LOOKUP_BYTES_MAX = 64 << 20  # decompressed; no producer's batch comes near it by accident


class _Question(IntEnum):
    """In the order of `enum question` in lookup.c."""

    FIRST_AT_OR_AFTER = 0
    LATEST = 1


def first_record_at_or_after(
    batch: Buffer, timestamp: int, *, from_offset: int = 0, max_bytes: int = LOOKUP_BYTES_MAX
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the first record with at least `timestamp`; None without one.

    Records below `from_offset` do not count. `max_bytes` bounds the decompressed payload. This and
    the others raise `CorruptBatch`.
    """
    found = _look_up(batch, _Question.FIRST_AT_OR_AFTER, timestamp, max_bytes)
    if found is None or found[0] >= from_offset:
        return found
    header = read_header(batch, 0, len(batch))
    for record in decode_payload(header, payload_of(batch, header, max_bytes=max_bytes)):
        offset = header.base_offset + record.offset_delta
        if offset >= from_offset and record.timestamp >= timestamp:
            return offset, record.timestamp
    return None


def record_with_max_timestamp(
    batch: Buffer, *, max_bytes: int = LOOKUP_BYTES_MAX
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the latest record, the first of equals; None in an empty batch.

    Looks at the records: a producer may have written any max timestamp in the header.
    """
    return _look_up(batch, _Question.LATEST, 0, max_bytes)


def _look_up(
    batch: Buffer, question: _Question, timestamp: int, max_bytes: int
) -> tuple[int, int] | None:
    """Offset and timestamp of the record that answers the question."""
    header = read_header(batch, 0, len(batch))
    payload = payload_of(batch, header, max_bytes=max_bytes)
    if native.codec is not None:
        try:
            found, *record = native.codec.look_up(batch, payload, question, timestamp)
        except (ValueError, OverflowError):
            pass  # read with care, to name the fault
        else:
            return (record[0], record[1]) if found else None
    records = decode_payload(header, payload)
    match question:
        case _Question.FIRST_AT_OR_AFTER:
            records = [record for record in records if record.timestamp >= timestamp]
        case _Question.LATEST:
            records.sort(key=lambda record: -record.timestamp)
    if not records:
        return None
    return header.base_offset + records[0].offset_delta, records[0].timestamp
