"""Records of one batch, read with care: every length and count is checked before it is used.

    record    length varint         bytes after this field
              attributes i8         none defined
              timestamp delta varint, offset delta varint
              key length varint     -1: null          key
              value length varint   -1: null          value
              header count varint   then per header: name length, UTF-8 name, value length, value

A batch's payload is its records one after the other, compressed as one if the codec says so.
`records.columns` reads the same bytes faster, for Spark; what it finds wrong is explained here.
"""

from __future__ import annotations

from logstore.records.batch import (
    HEADER_BYTES,
    RECORD_BYTES_MIN,
    BatchHeader,
    CorruptBatch,
    Reason,
    read_header,
)
from logstore.records.compression import decompress
from logstore.records.crc32c import Buffer
from logstore.records.record import Record
from logstore.records.varint import decode_varint

_INT64_MAX = 2**63 - 1
_NO_HEADERS = b"\x00"
_HEADER_BYTES_MIN = 2  # a name's length and a value's


def decode_records(batch: Buffer, *, max_bytes: int) -> list[Record]:
    """Records of the one whole batch in `batch`; keys and values are `bytes`, copied out.

    Does not check the CRC. Control records are decoded like any other, batches with gaps or without
    records too. `max_bytes` bounds the decompressed payload.
    Raises `CorruptBatch`; the position of a BAD_RECORD counts from the start of the payload.
    """
    header = read_header(batch, 0, len(batch))
    return decode_payload(header, payload_of(batch, header, max_bytes=max_bytes))


def payload_of(
    batch: Buffer, header: BatchHeader, *, max_bytes: int, is_strict: bool = False
) -> Buffer:
    """The decompressed records of `batch`, large enough for as many as the header counts.

    `is_strict`: only if every client can read them (`compression.decompress`).
    """
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    payload: Buffer = decompress(
        header.compression, packed, max_bytes=max_bytes, is_strict=is_strict
    )
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        detail = f"records={header.record_count} payload_bytes={len(payload)}"
        raise CorruptBatch(Reason.BAD_COUNT, 0, detail)
    return payload


def decode_payload(header: BatchHeader, payload: Buffer) -> list[Record]:
    data = bytes(payload)
    append_time = header.max_timestamp if header.is_log_append_time else None
    records: list[Record] = []
    at, last_delta = 0, -1
    for _ in range(header.record_count):
        record, at = _decode_record(data, at, header.base_timestamp, append_time)
        if not last_delta < record.offset_delta <= header.last_offset_delta:
            detail = f"offset delta={record.offset_delta} after={last_delta}"
            raise _bad(at, f"{detail} last_offset_delta={header.last_offset_delta}")
        last_delta = record.offset_delta
        records.append(record)
    if at != len(data):
        raise _bad(at, f"trailing bytes={len(data) - at}")
    return records


def _decode_record(
    data: bytes, at: int, base_timestamp: int, append_time: int | None
) -> tuple[Record, int]:
    length, body = decode_varint(data, at, len(data))
    stop = body + length
    if not body <= stop <= len(data):
        raise _bad(at, f"record length={length} left={len(data) - body}")
    time_delta, at = decode_varint(data, body + 1, stop)  # past the attributes
    timestamp = base_timestamp + time_delta if append_time is None else append_time
    if not -_INT64_MAX <= timestamp <= _INT64_MAX:
        raise _bad(at, f"timestamp={timestamp} does not fit")
    offset_delta, at = decode_varint(data, at, stop)
    key, at = _decode_bytes(data, at, stop)
    value, at = _decode_bytes(data, at, stop)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if data[at : at + 1] == _NO_HEADERS:
        at += 1
    else:
        headers, at = _decode_headers(data, at, stop)
    if at != stop:
        raise _bad(at, f"record ends early: left={stop - at}")
    return Record(offset_delta, timestamp, key, value, headers), stop


def _decode_headers(
    data: bytes, at: int, stop: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = decode_varint(data, at, stop)
    if not 0 <= count * _HEADER_BYTES_MIN <= stop - at:
        raise _bad(at, f"header count={count} left={stop - at}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        start = at
        name_bytes, at = _decode_bytes(data, at, stop)
        if name_bytes is None:
            raise _bad(start, "header without a name")
        try:
            name = name_bytes.decode()
        except UnicodeDecodeError as error:
            raise _bad(start, "header name is not utf-8") from error
        value, at = _decode_bytes(data, at, stop)
        headers.append((name, value))
    return tuple(headers), at


def _decode_bytes(data: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    length, start = decode_varint(data, at, stop)
    if length == -1:
        return None, start
    if not 0 <= length <= stop - start:
        raise _bad(at, f"length={length} left={stop - start}")
    return data[start : start + length], start + length


def _bad(at: int, detail: str) -> CorruptBatch:
    return CorruptBatch(Reason.BAD_RECORD, at, detail)
