"""What the load writes and journals: every value unique, and who sent what when.

    value      producer u16, partition u16, counter u32, CRC-32 of these 8 bytes, then filling
    journal    entries of 32 bytes: kind u8, producer u16, partition u16, counter u32, offset i64,
               seconds f64 of the machine's monotonic clock

Counters go up by one per producer and partition from 0. A journal is written by one process that is
never killed, so it is whole.
"""

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

VALUE = struct.Struct(">HHII")
VALUE_BYTES = 100
VALUE_BYTES_MAX = 10_000
NO_OFFSET = -1
_NAME = struct.Struct(">HHI")
_ENTRY = struct.Struct("<B3xHHI4xqd")


class Value(NamedTuple):
    producer: int
    partition: int
    counter: int


class Kind(IntEnum):
    SENT = 1
    ACKED = 2
    FAILED = 3
    SEEN_LOW = 4
    SEEN_HIGH = 5
    """Watermarks: `offset` is what was answered, `at_s` when it was asked for."""


class Entry(NamedTuple):
    kind: int
    producer: int
    partition: int
    counter: int
    offset: int
    at_s: float

    @property
    def value(self) -> Value:
        return Value(self.producer, self.partition, self.counter)


def encode_value(value: Value, size: int = VALUE_BYTES) -> bytes:
    name = _NAME.pack(*value)
    return VALUE.pack(*value, zlib.crc32(name)) + bytes(size - VALUE.size)


def decode_value(data: bytes) -> Value | None:
    """None for bytes that no producer of ours sent."""
    if not VALUE.size <= len(data) <= VALUE_BYTES_MAX or data[VALUE.size :].strip(b"\0"):
        return None
    *name, crc = VALUE.unpack_from(data)
    return Value(*name) if zlib.crc32(_NAME.pack(*name)) == crc else None


def pack_entry(entry: Entry) -> bytes:
    return _ENTRY.pack(*entry)


def read_journal(path: Path) -> Iterator[Entry]:
    return (Entry(*fields) for fields in _ENTRY.iter_unpack(path.read_bytes()))
