"""Record batches from records: for commands, internal topics, history and tests.

Byte for byte what Kafka's clients build from the same records (uncompressed; compressed bytes
depend on the library). A record is drawn in `records.decode`, a batch in `records.batch`.
"""

from collections.abc import Iterable, Sequence

from logstore.errors import Invalid
from logstore.records.batch import (
    CODEC_BITS,
    CODECS,
    CONTROL_BIT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
)
from logstore.records.compression import compress
from logstore.records.crc32c import Buffer, crc32c
from logstore.records.record import Header, Record
from logstore.records.varint import encode_varint

_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1
_NULL = b"\x01"  # a length of -1
_NO_HEADERS = b"\x00"
_ATTRIBUTES = b"\x00"  # of a record: none are defined


def records_of(
    values: Iterable[tuple[Buffer | None, Buffer | None]], *, timestamp: int
) -> list[Record]:
    """(key, value) pairs as records of one batch, at consecutive offsets and one time in ms."""
    return [Record(i, timestamp, key, value) for i, (key, value) in enumerate(values)]


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Codec = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    last_offset_delta: int | None = None,
) -> bytes:
    """One batch. Offset deltas must rise; they may have gaps, as after compaction.

    `last_offset_delta` is the last record's unless given: a batch whose last records were compacted
    away keeps theirs, and a batch without records must have one. With `log_append_time` every
    record must have the same timestamp. Raises `Invalid`.
    """
    last_delta = _last_delta(records, last_offset_delta)
    base_timestamp = records[0].timestamp if records else -1
    max_timestamp = max((record.timestamp for record in records), default=-1)
    if log_append_time and any(record.timestamp != max_timestamp for record in records):
        raise Invalid("records of a log append time batch have different timestamps")
    payload: Buffer = b"".join(_encoded_parts(records, base_timestamp))
    if compression != "none":
        payload = compress(compression, payload)
    attributes = (
        CODECS.index(compression)
        | (LOG_APPEND_TIME_BIT if log_append_time else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
    )
    batch_length = HEADER_BYTES - LENGTH_END + len(payload)
    if batch_length > _INT32_MAX:
        raise Invalid(f"batch too large: bytes={batch_length}")

    def header(crc: int) -> bytes:
        return HEADER.pack(
            *(base_offset, batch_length, leader_epoch, MAGIC, crc, attributes, last_delta),
            *(base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence),
            len(records),
        )

    crc = crc32c(payload, crc32c(header(0)[CRC_FROM:]))
    return b"".join((header(crc), payload))


def encoded_bytes(record: Record, base_timestamp: int) -> int:
    """What `record` takes in a batch with this base timestamp. Raises `Invalid`."""
    return sum(map(len, _encoded_parts([record], base_timestamp)))


def recompressed(batch: bytes, compression: Codec) -> bytes:
    """The same records as those of the uncompressed `batch`."""
    payload = compress(compression, memoryview(batch)[HEADER_BYTES:])
    header = BatchHeader._make(HEADER.unpack_from(batch))
    return with_payload(header, compression, payload)[0]


def with_payload(
    header: BatchHeader, compression: Codec, payload: Buffer
) -> tuple[bytes, BatchHeader]:
    """The batch of `header` with its records packed as `payload`, and its own header.

    Length, codec and CRC are made; every other field is that of `header`.
    """
    packed = header._replace(
        batch_length=HEADER_BYTES - LENGTH_END + len(payload),
        attributes=header.attributes & ~CODEC_BITS | CODECS.index(compression),
    )
    packed = packed._replace(crc=crc32c(payload, crc32c(HEADER.pack(*packed)[CRC_FROM:])))
    return b"".join((HEADER.pack(*packed), payload)), packed


def _last_delta(records: Sequence[Record], given: int | None) -> int:
    last = -1
    for record in records:
        if record.offset_delta <= last:
            raise Invalid(f"offset deltas do not rise: {last} then {record.offset_delta}")
        last = record.offset_delta
    if given is None:
        given = last
    if not max(last, 0) <= given <= _INT32_MAX:
        raise Invalid(f"last offset delta does not fit: {given} last_record={last}")
    return given


def _encoded_parts(records: Sequence[Record], base_timestamp: int) -> list[Buffer]:
    """Pieces of the payload, in order; keys and values are not copied here."""
    parts: list[Buffer] = []
    for offset_delta, timestamp, key, value, headers in records:
        time_delta = timestamp - base_timestamp
        if not -_INT64_MAX <= time_delta <= _INT64_MAX or not -1 <= timestamp <= _INT64_MAX:
            raise Invalid(f"timestamp does not fit: ms={timestamp} base_ms={base_timestamp}")
        front = _ATTRIBUTES + encode_varint(time_delta) + encode_varint(offset_delta)
        key_size, key = (encode_varint(len(key)), key) if key is not None else (_NULL, b"")
        value_size, value = (
            (encode_varint(len(value)), value) if value is not None else (_NULL, b"")
        )
        back = _encode_headers(headers) if headers else _NO_HEADERS
        front += key_size
        body_bytes = len(front) + len(key) + len(value_size) + len(value) + len(back)
        parts += (encode_varint(body_bytes), front, key, value_size, value, back)
    return parts


def _encode_headers(headers: Sequence[Header]) -> bytes:
    encoded = bytearray(encode_varint(len(headers)))
    for name, value in headers:
        name_bytes = name.encode()
        encoded += encode_varint(len(name_bytes)) + name_bytes
        encoded += _NULL if value is None else encode_varint(len(value))
        encoded += value or b""
    return bytes(encoded)
