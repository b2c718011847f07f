"""Header of a Kafka record batch, format 2: read, check, stamp.

    at  size  field
     0     8  base offset            stamped by the broker; outside the CRC
     8     4  batch length           bytes after this field: whole batch - 12
    12     4  leader epoch           stamped by the broker; outside the CRC
    16     1  magic                  2
    17     4  crc                    CRC-32C of bytes [21, end)
    21     2  attributes             bits 0-2 codec, 3 log append time, 4 transactional, 5 control,
                                     6 base timestamp is a delete horizon (KIP-534)
    23     4  last offset delta      last offset - base offset, also of records compacted away
    27     8  base timestamp         ms; record timestamps are deltas to it
    35     8  max timestamp          ms; with bit 3, the timestamp of every record
    43     8  producer id            -1: not idempotent
    51     2  producer epoch
    53     4  base sequence          wraps from 2**31 - 1 to 0
    57     4  record count
    61     n  records                `records.decode` draws them; compressed as one if codec > 0

Big-endian, two's complement, crc unsigned. Source: KIP-98, Kafka's `DefaultRecordBatch`.

`check_batch` is the hot path of produce: it looks at every batch once and at no record.
`read_header` is for batches already in a log, which compaction may have left with gaps or empty.
"""

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Literal, NamedTuple, NoReturn

from logstore.errors import Corrupt, Invalid, LogstoreError
from logstore.records.crc32c import Buffer, crc32c

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")  # by attribute bits 0-2

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_END = 12  # batch length counts from here
CRC_FROM = 21
MAGIC = 2
RECORD_BYTES_MIN = 7  # length, attributes, two deltas, two lengths, header count
SEQUENCE_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1

CODEC_BITS = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_AT = 12
_MAGIC_AT = 16
_CRC = struct.Struct(">I")
_CRC_AT = 17
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
OFFSET_DELTA_MAX = 2**31 - 1
"""It has four bytes."""

_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35


class Reason(Enum):
    """Kinds of invalid batches; a broker maps these to Kafka's codes."""

    TRUNCATED = "truncated"
    BAD_MAGIC = "bad magic"
    BAD_CRC = "bad crc"
    BAD_COUNT = "bad record count"
    UNKNOWN_CODEC = "unknown compression codec"
    BAD_PRODUCER = "bad producer fields"
    BAD_PAYLOAD = "payload does not decompress"
    TOO_LARGE = "payload too large when decompressed"
    BAD_RECORD = "bad record"


class BadBatch(LogstoreError):
    """A batch breaks the format or a rule; `at` is the byte where, counted as the text says."""

    def __init__(self, reason: Reason, at: int, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail} at={at}")
        self.reason = reason
        self.at = at


class CorruptBatch(BadBatch, Corrupt):
    """The bytes are damaged or are no batch."""


class InvalidBatch(BadBatch, Invalid):
    """The bytes are whole, and say something that no producer may say."""


class BatchHeader(NamedTuple):
    """The 61 bytes as values. A tuple, since one is made per batch on the hot path."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Codec:
        return CODECS[self.attributes & CODEC_BITS]

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 if the batch has no sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


def check_batch(buf: memoryview, at: int, length: int) -> BatchHeader:
    """Check the produced batch at `at`, of whose buffer `length` bytes may be read from there.

    Everything a broker can tell without decoding records. Left to the caller, since it depends on
    who asks: that the batch fills `length`, base offset, leader epoch, control, transactional and
    log append time bits, timestamps, sequences, size limits. As Kafka does, epoch and sequence are
    not looked at without a producer id: KafkaJS sends 0 there, Sarama a sequence of 0.

    Raises `CorruptBatch` (TRUNCATED, BAD_CRC) or `InvalidBatch` (BAD_MAGIC, BAD_COUNT,
    UNKNOWN_CODEC, BAD_PRODUCER). About 1 us and 17 us/MB.
    """
    if length < HEADER_BYTES:
        _raise_short(buf, at, length)
    header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(buf, at))
    _, size, _, magic, crc, attributes, last_delta, _, _, producer, epoch, sequence, count = header
    if magic != MAGIC:
        raise InvalidBatch(Reason.BAD_MAGIC, at + _MAGIC_AT, f"magic={magic} need={MAGIC}")
    if not HEADER_BYTES - LENGTH_END <= size <= length - LENGTH_END:
        raise CorruptBatch(Reason.TRUNCATED, at, f"batch_length={size} bytes={length}")
    if crc32c(buf[at + CRC_FROM : at + LENGTH_END + size]) != crc:
        raise CorruptBatch(Reason.BAD_CRC, at + _CRC_AT, f"crc={crc:#010x} size={size}")
    codec = attributes & CODEC_BITS
    if codec >= len(CODECS):
        raise InvalidBatch(Reason.UNKNOWN_CODEC, at + _ATTRIBUTES_AT, f"codec={codec}")
    if count <= 0 or count != last_delta + 1 or (not codec and count * RECORD_BYTES_MIN > size):
        detail = f"records={count} last_offset_delta={last_delta} batch_length={size}"
        raise InvalidBatch(Reason.BAD_COUNT, at, detail)
    if producer != -1 and (producer < 0 or epoch < 0 or sequence < 0):
        detail = f"producer_id={producer} epoch={epoch} sequence={sequence}"
        raise InvalidBatch(Reason.BAD_PRODUCER, at, detail)
    return header


def read_header(buf: Buffer, at: int, length: int) -> BatchHeader:
    """Header of the stored batch at `at`, which must be whole within `length` bytes.

    Does not look at the CRC. Raises `CorruptBatch`: TRUNCATED, BAD_MAGIC, UNKNOWN_CODEC, BAD_COUNT.
    """
    if length < HEADER_BYTES:
        raise CorruptBatch(Reason.TRUNCATED, at, f"bytes={length} need={HEADER_BYTES}")
    header = BatchHeader._make(HEADER.unpack_from(buf, at))
    if header.magic != MAGIC:
        raise CorruptBatch(Reason.BAD_MAGIC, at + _MAGIC_AT, f"magic={header.magic} need={MAGIC}")
    if not HEADER_BYTES <= header.size_bytes <= length:
        detail = f"batch_length={header.batch_length} bytes={length}"
        raise CorruptBatch(Reason.TRUNCATED, at, detail)
    codec = header.attributes & CODEC_BITS
    if codec >= len(CODECS):
        raise CorruptBatch(Reason.UNKNOWN_CODEC, at + _ATTRIBUTES_AT, f"codec={codec}")
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        detail = f"records={header.record_count} last_offset_delta={header.last_offset_delta}"
        raise CorruptBatch(Reason.BAD_COUNT, at, detail)
    if header.next_offset > _OFFSET_MAX:
        raise CorruptBatch(Reason.BAD_COUNT, at, f"offsets end at {header.next_offset}")
    return header


def check_crc(buf: memoryview, at: int, header: BatchHeader) -> None:
    """Raises `CorruptBatch` (BAD_CRC)."""
    if crc32c(buf[at + CRC_FROM : at + header.size_bytes]) != header.crc:
        detail = f"crc={header.crc:#010x} size={header.batch_length}"
        raise CorruptBatch(Reason.BAD_CRC, at + _CRC_AT, detail)


def split_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch of a record set, CRC checked. Nothing may trail.

    Raises what `read_header` and `check_crc` raise, when it gets there.
    """
    view = memoryview(buf)
    at, end = 0, len(view)
    while at < end:
        header = read_header(view, at, end - at)
        check_crc(view, at, header)
        yield at, header
        at += header.size_bytes


def stamp(buf: bytearray | memoryview, at: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into a batch, in place; its CRC stays valid."""
    _BASE_OFFSET.pack_into(buf, at, base_offset)
    _LEADER_EPOCH.pack_into(buf, at + _LEADER_EPOCH_AT, leader_epoch)


def stamp_log_append_time(
    buf: bytearray | memoryview, at: int, length: int, append_time_ms: int
) -> None:
    """Make `append_time_ms` the timestamp of every record of the batch of `length` bytes."""
    (attributes,) = _ATTRIBUTES.unpack_from(buf, at + _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(buf, at + _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(buf, at + _MAX_TIMESTAMP_AT, append_time_ms)
    with memoryview(buf) as view:
        _CRC.pack_into(buf, at + _CRC_AT, crc32c(view[at + CRC_FROM : at + length]))


def with_max_timestamp(batch: Buffer, max_timestamp_ms: int) -> tuple[memoryview, BatchHeader]:
    """A copy of the one whole batch in `batch` with another largest timestamp, and its header."""
    copy = bytearray(batch)
    _MAX_TIMESTAMP.pack_into(copy, _MAX_TIMESTAMP_AT, max_timestamp_ms)
    view = memoryview(copy)
    _CRC.pack_into(copy, _CRC_AT, crc32c(view[CRC_FROM:]))
    return view, BatchHeader._make(HEADER.unpack_from(copy))


def with_create_time(batch: Buffer, max_timestamp_ms: int) -> tuple[memoryview, BatchHeader]:
    """A copy of the one whole batch in `batch` whose records have their own timestamps, the largest
    of which is given, and its header."""
    copy = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(copy, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(copy, _ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME_BIT)
    return with_max_timestamp(copy, max_timestamp_ms)


def with_next_offset(batch: Buffer, next_offset: int) -> bytes:
    """A copy of the one whole batch in `batch` that ends below `next_offset`, or as near to it as a
    batch can: it says that no offset between its last record and that one has a record."""
    copy = bytearray(batch)
    (base_offset,) = _BASE_OFFSET.unpack_from(copy, 0)
    delta = min(next_offset - 1 - base_offset, OFFSET_DELTA_MAX)
    _LAST_OFFSET_DELTA.pack_into(copy, _LAST_OFFSET_DELTA_AT, delta)
    with memoryview(copy) as view:
        _CRC.pack_into(copy, _CRC_AT, crc32c(view[CRC_FROM:]))
    return bytes(copy)


def _raise_short(buf: memoryview, at: int, length: int) -> NoReturn:
    """Messages of format 0 and 1 are shorter than a header; their magic is at the same place."""
    if length > _MAGIC_AT and buf[at + _MAGIC_AT] != MAGIC:
        magic = buf[at + _MAGIC_AT]
        raise InvalidBatch(Reason.BAD_MAGIC, at + _MAGIC_AT, f"magic={magic} need={MAGIC}")
    raise CorruptBatch(Reason.TRUNCATED, at, f"bytes={length} need={HEADER_BYTES}")
