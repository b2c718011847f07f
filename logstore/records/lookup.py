"""Questions that a broker can answer only by decoding one batch.

A batch of 400 bytes may unpack to 64 MiB of records, so ask in a thread: the native codec and the
libraries that unpack release the GIL. All functions raise `CorruptBatch`.
"""

from enum import IntEnum
from typing import NamedTuple

from logstore.records import native
from logstore.records.batch import HEADER_BYTES, BatchHeader, CorruptBatch, Reason, read_header
from logstore.records.crc32c import Buffer
from logstore.records.decode import decode_payload, payload_of
from logstore.records.record import Record

LOOKUP_BYTES_MAX = 64 << 20  # decompressed; no producer's batch comes near it by accident
NO_TIMESTAMP = -1


class _Question(IntEnum):
    """In the order of `enum question` in lookup.c."""

    FIRST_AT_OR_AFTER = 0
    LATEST = 1


class Faulty(NamedTuple):
    """Records of a batch that break one rule: how many, and the numbers of the first of them."""

    total: int
    indexes: list[int]


class CheckedRecords(NamedTuple):
    """All records of a batch have been read: lengths, offsets, counts and headers agree."""

    max_timestamp: int
    """Of the records, ms; -1 if none has one, whatever the batch's header says."""
    keyless: Faulty
    mistimed: Faulty
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
    batch: Buffer, *, from_offset: int = 0, max_bytes: int = LOOKUP_BYTES_MAX
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the latest record, the first of equals; None without one.

    Looks at the records: a producer may have written any max timestamp in the header. Records below
    `from_offset` do not count.
    """
    return _look_up(batch, _Question.LATEST, 0, from_offset, max_bytes)


def largest_timestamp_if_sound(
    batch: memoryview, needs_keys: bool, timestamp_min: int, timestamp_max: int
) -> int | None:
    """`max_timestamp` of `check_records`, for an uncompressed batch whose header has been checked.

    None if any record breaks a rule, or without the native codec: `check_records` finds out more.
    """
    if native.codec is None:
        return None
    payload = batch[HEADER_BYTES:]
    try:
        largest, keyless, _, mistimed, _ = native.codec.check_records(
            batch, payload, needs_keys, timestamp_min, timestamp_max, 0
        )
    except ValueError:
        return None
    return None if keyless or mistimed else largest


def check_records(
    batch: Buffer,
    *,
    needs_keys: bool,
    timestamps: tuple[int, int],
    indexes_max: int,
    max_bytes: int = LOOKUP_BYTES_MAX,
) -> CheckedRecords:
    """Read every record of `batch`, which may be from anyone.

    `timestamps`: the smallest and the largest that are allowed, ms; -1, no timestamp, always is.
    At most `indexes_max` (1,000) records are listed for each rule. About 10 ns a record.
    """
    header = read_header(batch, 0, len(batch))
    payload = payload_of(batch, header, max_bytes=max_bytes)
    return check_payload(
        batch,
        header,
        payload,
        needs_keys=needs_keys,
        timestamps=timestamps,
        indexes_max=indexes_max,
    )


def check_payload(
    batch: Buffer,
    header: BatchHeader,
    payload: Buffer,
    *,
    needs_keys: bool,
    timestamps: tuple[int, int],
    indexes_max: int,
) -> CheckedRecords:
    """As `check_records`, of a batch whose header was read, and whose records were unpacked."""
    if native.codec is not None:
        try:
            largest, keyless_total, keyless, mistimed_total, mistimed = native.codec.check_records(
                batch, payload, needs_keys, *timestamps, indexes_max
            )
        except ValueError as error:
            raise _unreadable(error) from error
        faulty = Faulty(keyless_total, keyless), Faulty(mistimed_total, mistimed)
        return CheckedRecords(largest, *faulty, len(payload))
    low, high = timestamps
    records = decode_payload(header, payload)
    keyless = [i for i, record in enumerate(records) if needs_keys and record.key is None]
    times = [record.timestamp for record in records]
    mistimed = [i for i, ms in enumerate(times) if not (low <= ms <= high or ms == NO_TIMESTAMP)]
    return CheckedRecords(
        max((NO_TIMESTAMP, *times)),
        Faulty(len(keyless), keyless[:indexes_max]),
        Faulty(len(mistimed), mistimed[:indexes_max]),
        len(payload),
    )


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
