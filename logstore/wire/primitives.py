"""The parts of every generated message: varints, lengths, arrays, tags, the one decode error.

    unsigned varint   7 bits a byte, lowest first, high bit = more follows; at most 5 bytes
    string            legacy: int16 length, -1 = null        compact: varint of length + 1, 0 = null
    bytes, records    legacy: int32 length, -1 = null        compact: varint of length + 1, 0 = null
    array             legacy: int32 count,  -1 = null        compact: varint of count + 1,  0 = null
    tag section       varint count, then per tag: varint tag, varint size, that many bytes

Compact forms, varints and tags are those of flexible versions (KIP-482). All integers are
big-endian. The functions here are the slow or rare paths: unrolled code handles one-byte
varints and fixed fields inline, and calls in here for the rest. They raise ValueError, IndexError
or struct.error; the generated function that called turns those into a `DecodeError` that says which
field stopped at which byte.
"""

from collections.abc import Callable, Sequence
from struct import Struct, error, pack, unpack_from
from typing import Any, NamedTuple, TypeVar

from logstore.errors import Invalid

Buffer = bytes | bytearray | memoryview
Readable = bytes | memoryview
Records = Buffer | list[Buffer]

T = TypeVar("T")
Decode = Callable[[Buffer, int, int, int], tuple[T, int]]
"""(buffer, position, end, most items of one array) -> (message, position after it)"""

Encode = Callable[[T, bytearray, list[Buffer]], bytearray]
"""(message, bytearray to go on in, finished buffers) -> bytearray that the rest went to"""


class Array(NamedTuple):
    """An array of a response that a client can make long, and the arrays in its items."""

    field: str
    encode: Callable[..., Any]
    """(items, bytearray), as part of the whole message; where they hold records, as `Encode`."""
    below: "tuple[Array, ...]" = ()
    holds_records: bool = False


ARRAY_COUNT_MAX = 100_000
"""Most items of one array unless the caller says otherwise; the bytes left bound it as well."""

INLINE_RECORDS_BYTES_MAX = 4096
"""Records up to this size are copied beside their neighbours; larger ones stay their own buffer."""

ZERO_UUID = bytes(16)

UNREADABLE = (IndexError, ValueError, error)
"""Errors of the generated code and the functions here for bytes that do not fit the schema."""

_STRING_BYTES_MAX = 0x7FFF
_VARINT_MAX = 0xFFFFFFFF


class DecodeError(Invalid):
    """Bytes that are not what the schema says; the text names the field and the byte."""


class Message:
    """Base of every generated class: compares and prints by fields. Mutable, so not hashable."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


def unreadable(failure: Exception, at: int, message: Message) -> DecodeError:
    """The error for `failure`: fields are set in wire order, so the first unset one is to blame."""
    field = next(
        (name for name in message.__slots__ if not hasattr(message, name)), "tagged fields"
    )
    why = "the bytes end too early" if isinstance(failure, IndexError | error) else failure
    return DecodeError(f"cannot decode {type(message).__name__}.{field} at byte={at}: {why}")


def bad_count(name: str, at: int, count: int, count_max: int, left: int) -> DecodeError:
    return DecodeError(
        f"cannot decode array of {name} at byte={at}: "
        f"count={count} max={count_max} bytes_left={left}"
    )


def bad_length(length: int, left: int) -> ValueError:
    if length == -1:
        return ValueError("null where the schema forbids it")
    return ValueError(f"length={length} bytes_left={left}")


def decode_varint(buf: Readable, at: int) -> tuple[int, int]:
    """(value, position after it); two bytes at once, since lengths of records are mostly that."""
    first = buf[at]
    if first < 0x80:
        return first, at + 1
    byte = buf[at + 1]
    value = first & 0x7F | (byte & 0x7F) << 7
    at += 2
    shift = 14
    while byte > 0x7F:
        if shift > 28:
            raise ValueError("varint longer than 5 bytes")
        byte = buf[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
    if value > _VARINT_MAX:
        raise ValueError(f"varint above 32 bits, value={value}")
    return value, at


def encode_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_string_length(buf: Readable, at: int) -> tuple[int, int]:
    """Varint of length + 1 of a string; Kafka allows no more bytes than an int16 can count."""
    length, at = decode_varint(buf, at)
    if length > _STRING_BYTES_MAX + 1:
        raise ValueError(f"string too long, length={length - 1}")
    return length, at


def encode_string_length(length: int) -> bytes:
    if length > _STRING_BYTES_MAX + 1:
        raise ValueError(f"string too long, length={length - 1}")
    return encode_varint(length)


def decode_fixed_array(
    buf: Readable, at: int, end: int, count_max: int, count: int, fixed: Struct
) -> tuple[list[int], int]:
    if not count:
        return [], at
    stop = _array_end(at, end, count_max, count, fixed.size)
    if count == 1:
        return list(fixed.unpack_from(buf, at)), stop
    return list(unpack_from(f">{count}{fixed.format[1:]}", buf, at)), stop


def encode_fixed_array(values: Sequence[int], fixed: Struct) -> bytes:
    if len(values) == 1:
        return fixed.pack(values[0])
    return pack(f">{len(values)}{fixed.format[1:]}", *values)


def decode_string_array(
    buf: Readable, at: int, end: int, count_max: int, count: int
) -> tuple[list[str], int]:
    """Legacy strings, none of them null."""
    _array_end(at, end, count_max, count, 2)
    values = []
    for _ in range(count):
        (length,) = unpack_from(">h", buf, at)
        at += 2
        if not 0 <= length <= end - at:
            raise bad_length(length, end - at)
        values.append(str(buf[at : at + length], "utf-8"))
        at += length
    return values, at


def put_strings(values: Sequence[str], out: bytearray) -> None:
    """Append legacy strings, without their count."""
    for value in values:
        encoded = value.encode()
        out += pack(">h", len(encoded)) + encoded


def decode_compact_string_array(
    buf: Readable, at: int, end: int, count_max: int, count: int
) -> tuple[list[str], int]:
    _array_end(at, end, count_max, count, 1)
    values = []
    for _ in range(count):
        length, at = decode_string_length(buf, at)
        if not 1 <= length <= end - at + 1:
            raise bad_length(length - 1, end - at)
        values.append(str(buf[at : at + length - 1], "utf-8"))
        at += length - 1
    return values, at


def put_compact_strings(values: Sequence[str], out: bytearray) -> None:
    """Append compact strings, without their count."""
    for value in values:
        encoded = value.encode()
        out += encode_string_length(len(encoded) + 1) + encoded


def decode_tag(buf: Readable, at: int, end: int) -> tuple[int, int, int]:
    """The next tag, where its bytes begin and where they end."""
    tag, at = decode_varint(buf, at)
    size, at = decode_varint(buf, at)
    if size > end - at:
        raise bad_length(size, end - at)
    return tag, at, at + size


def encode_tag(tag: int, value: bytes | bytearray) -> bytes:
    return encode_varint(tag) + encode_varint(len(value)) + value


def skip_tags(buf: Readable, at: int, end: int) -> int:
    """Pass over a tag section of which no tag is known; returns where it ends."""
    count, at = decode_varint(buf, at)
    for _ in range(count):
        _, _, at = decode_tag(buf, at, end)
    return at


def put_records_parts(
    records: list[Buffer], size: int, out: bytearray, parts: list[Buffer]
) -> bytearray:
    """Append records that lie in several buffers; returns the bytearray to go on in."""
    if size <= INLINE_RECORDS_BYTES_MAX:
        for piece in records:
            out += piece
        return out
    parts.append(out)
    parts.extend(records)
    return bytearray()


def _array_end(at: int, end: int, count_max: int, count: int, item_bytes: int) -> int:
    if not 0 <= count <= count_max or count * item_bytes > end - at:
        raise ValueError(f"count={count} max={count_max} bytes_left={end - at}")
    return at + count * item_bytes
