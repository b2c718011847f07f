"""Writes single fields, for messages whose code is not unrolled field by field. Pure.

    def _encode_topic_list_v2(items: list[Topic], out: bytearray) -> None:
        for o in items:
            put_string(o.name, out)
            out += _pack_ii(o.error_code, o.partition_count)
            put_array(o.configs, out, _encode_config_list_v2)

The forms are drawn in `logstore.wire.primitives`. A value that the version cannot carry raises what
`logstore.wire.framing.apis.UNENCODABLE` lists.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import TypeVar

from logstore.wire.primitives import (
    Buffer,
    encode_fixed_array,
    encode_string_length,
    encode_varint,
)

T = TypeVar("T")

Put = Callable[[list[T], bytearray], None]
"""Appends the items of an array."""

_SHORT = Struct(">h")
_INT = Struct(">i")
_NULL_SHORT = _SHORT.pack(-1)
_NULL_INT = _INT.pack(-1)


def put_string(value: str | None, out: bytearray) -> None:
    """Append a legacy string. A version that has no null cannot carry None: AttributeError."""
    encoded = value.encode()  # type: ignore[union-attr]
    out += _SHORT.pack(len(encoded))
    out += encoded


def put_nullable_string(value: str | None, out: bytearray) -> None:
    if value is None:
        out += _NULL_SHORT
    else:
        put_string(value, out)


def put_compact_string(value: str | None, out: bytearray) -> None:
    encoded = value.encode()  # type: ignore[union-attr]
    n = len(encoded) + 1
    if n < 128:
        out.append(n)
    else:
        out += encode_string_length(n)
    out += encoded


def put_compact_nullable_string(value: str | None, out: bytearray) -> None:
    if value is None:
        out.append(0)
    else:
        put_compact_string(value, out)


def put_bytes(value: Buffer, out: bytearray) -> None:
    out += _INT.pack(len(value))
    out += value


def put_compact_bytes(value: Buffer, out: bytearray) -> None:
    out += encode_varint(len(value) + 1)
    out += value


def put_array(items: list[T], out: bytearray, put: Put[T]) -> None:
    out += _INT.pack(len(items))
    if items:
        put(items, out)


def put_nullable_array(items: list[T] | None, out: bytearray, put: Put[T]) -> None:
    if items is None:
        out += _NULL_INT
    else:
        put_array(items, out, put)


def put_compact_array(items: list[T], out: bytearray, put: Put[T]) -> None:
    n = len(items) + 1
    if n < 128:
        out.append(n)
    else:
        out += encode_varint(n)
    if n > 1:
        put(items, out)


def put_compact_nullable_array(items: list[T] | None, out: bytearray, put: Put[T]) -> None:
    if items is None:
        out.append(0)
    else:
        put_compact_array(items, out, put)


def put_nullable_struct(value: T | None, out: bytearray, put: Put[T]) -> None:
    """Append a struct that may be null (KIP-893): -1 is null, 1 is not."""
    out.append(255 if value is None else 1)
    if value is not None:
        put([value], out)


def numbers(one: Struct) -> Put[int]:
    """Returns the function that appends numbers of one size."""

    def put(values: Sequence[int], out: bytearray) -> None:
        out += encode_fixed_array(values, one)

    return put
