"""Questions that a broker can answer only by decoding one batch.

A batch of 400 bytes may unpack to 64 MiB of records, so ask in a thread: the native codec and the
libraries that unpack release the GIL. All functions raise `CorruptBatch`.
"""

from enum import IntEnum
from typing import NamedTuple

from logstore.records import native
from logstore.records.batch import CorruptBatch, Reason, read_header
from logstore.records.crc32c import Buffer
from logstore.records.decode import decode_payload, payload_of
from logstore.records.record import Record

LOOKUP_BYTES_MAX = 64 << 20  # decompressed; no producer's batch comes near it by accident


class _Question(IntEnum):
    """In the order of `enum question` in lookup.c."""

    FIRST_AT_OR_AFTER = 0
    LATEST = 1


class Keyless(NamedTuple):
    """Records of a batch that have no key: how many, and the numbers of the first of them."""

    total: int
    indexes: list[int]
    payload_bytes: int
    """Of all records, unpacked."""


def first_record_at_or_after(
    batch: Buffer, timestamp: int, *, from_offset: int = 0, max_bytes: int = LOOKUP_BYTES_MAX
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the first record with at least `timestamp`; None without one.

    Records below `from_offset` do not count. `max_bytes` bounds the decompressed payload.
    """
    return _look_up(batch, _Question.FIRST_AT_OR_AFTER, timestamp, from_offset, max_bytes)


def record_with_max_timestamp(
    batch: Buffer, *, max_bytes: int = LOOKUP_BYTES_MAX
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the latest record, the first of equals; None in an empty batch.

    Looks at the records: a producer may have written any max timestamp in the header.
    """
    return _look_up(batch, _Question.LATEST, 0, 0, max_bytes)


def records_without_key(
    batch: Buffer, *, indexes_max: int, max_bytes: int = LOOKUP_BYTES_MAX
) -> Keyless:
    """Which records have no key; at most `indexes_max` (1,000) of them are listed."""
    header = read_header(batch, 0, len(batch))
    payload = payload_of(batch, header, max_bytes=max_bytes)
    if native.codec is not None:
        try:
            return Keyless(*native.codec.keyless(batch, payload, indexes_max), len(payload))
        except ValueError as error:
            raise _unreadable(error) from error
    keyless = [
        index for index, record in enumerate(decode_payload(header, payload)) if record.key is None
    ]
    return Keyless(len(keyless), keyless[:indexes_max], len(payload))


def _look_up(
    batch: Buffer, question: _Question, timestamp: int, from_offset: int, max_bytes: int
) -> tuple[int, int] | None:
    """Offset and timestamp of the record that answers the question."""
    header = read_header(batch, 0, len(batch))
    payload = payload_of(batch, header, max_bytes=max_bytes)
    if native.codec is not None:
        try:
            found, *record = native.codec.look_up(batch, payload, question, timestamp, from_offset)
        except ValueError as error:
            raise _unreadable(error) from error
        return (record[0], record[1]) if found else None

    def offset_of(record: Record) -> int:
        return header.base_offset + record.offset_delta

    records = [r for r in decode_payload(header, payload) if offset_of(r) >= from_offset]
    match question:
        case _Question.FIRST_AT_OR_AFTER:
            records = [record for record in records if record.timestamp >= timestamp]
        case _Question.LATEST:
            records.sort(key=lambda record: -record.timestamp)
    return (offset_of(records[0]), records[0].timestamp) if records else None


def _unreadable(error: ValueError) -> CorruptBatch:
    """The twin in Python would name the fault, but needs seconds for what C reads in one."""
    at = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    return CorruptBatch(Reason.BAD_RECORD, at, "a record that cannot be read begins here")
