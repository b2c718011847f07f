"""Field by field reading and writing of records of `__consumer_offsets`. Pure.

Big-endian integers; strings and bytes either with a length in front (int16 and int32, -1: null) or,
in flexible versions, compact (unsigned varint of length + 1, 0: null) with a tag section at the
end of each struct (KIP-482).
"""

import struct
from collections.abc import Mapping
from struct import Struct

from logstore.errors import Corrupt
from logstore.wire.primitives import decode_varint, encode_varint

_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")
TAGS_MAX = 64


class FieldReader:
    """Reads from the front; raises `Corrupt` for bytes that end too early or make no sense."""

    def __init__(self, data: bytes, *, is_compact: bool = False) -> None:
        self._data = data
        self._at = 0
        self.is_compact = is_compact

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise Corrupt(f"null where a string must be: byte={self._at}")
        return text

    def nullable_string(self) -> str | None:
        length = self._compact_length() if self.is_compact else self.int16()
        if length == -1:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise Corrupt(f"string is not utf-8: byte={self._at}") from error

    def blob(self) -> bytes:
        length = self._compact_length() if self.is_compact else self.int32()
        if length == -1:
            raise Corrupt(f"null where bytes must be: byte={self._at}")
        return self.take(length)

    def count(self) -> int:
        """Number of items of an array; each takes a byte at least."""
        count = self._compact_length() if self.is_compact else self.int32()
        if not 0 <= count <= self.left:
            raise Corrupt(f"array of {count} items in {self.left} bytes: byte={self._at}")
        return count

    def tags(self) -> Mapping[int, bytes]:
        """The tag section; empty in versions without one."""
        if not self.is_compact:
            return {}
        values: dict[int, bytes] = {}
        for _ in range(self._at_most(self._varint(), TAGS_MAX)):
            tag = self._varint()
            values[tag] = self.take(self._varint())
        return values

    def take(self, length: int) -> bytes:
        start = self._at
        end = start + length
        if not start <= end <= len(self._data):
            raise Corrupt(f"field of {length} bytes in {self.left}: byte={start}")
        self._at = end
        return self._data[start:end]

    def _number(self, kind: Struct) -> int:
        try:
            value: int = kind.unpack_from(self._data, self._at)[0]
        except struct.error as error:
            raise Corrupt(f"field of {kind.size} bytes in {self.left}: byte={self._at}") from error
        self._at += kind.size
        return value

    def _compact_length(self) -> int:
        return self._varint() - 1

    def _varint(self) -> int:
        at = self._at
        if at < len(self._data) and self._data[at] < 0x80:  # one byte, as nearly always
            self._at = at + 1
            return self._data[at]
        try:
            value, self._at = decode_varint(self._data, self._at)
        except (IndexError, ValueError) as error:
            raise Corrupt(f"bad varint: byte={self._at}") from error
        return value

    def _at_most(self, value: int, limit: int) -> int:
        if value > limit:
            raise Corrupt(f"too many tags: {value}")
        return value


class FieldWriter:
    """The other way. Strings longer than an int16 can say raise in `struct`: callers bound them."""

    def __init__(self, *, is_compact: bool = False) -> None:
        self._data = bytearray()
        self._is_compact = is_compact

    def int16(self, value: int) -> "FieldWriter":
        self._data += _INT16.pack(value)
        return self

    def int32(self, value: int) -> "FieldWriter":
        self._data += _INT32.pack(value)
        return self

    def int64(self, value: int) -> "FieldWriter":
        self._data += _INT64.pack(value)
        return self

    def string(self, text: str | None) -> "FieldWriter":
        data = None if text is None else text.encode()
        length = -1 if data is None else len(data)
        self._data += encode_varint(length + 1) if self._is_compact else _INT16.pack(length)
        self._data += data or b""
        return self

    def blob(self, data: bytes) -> "FieldWriter":
        length = len(data)
        self._data += encode_varint(length + 1) if self._is_compact else _INT32.pack(length)
        self._data += data
        return self

    def count(self, count: int) -> "FieldWriter":
        self._data += encode_varint(count + 1) if self._is_compact else _INT32.pack(count)
        return self

    def tags(self, tags: Mapping[int, bytes]) -> "FieldWriter":
        """Does nothing in versions without tags."""
        if self._is_compact:
            self._data += encode_varint(len(tags))
            for tag in sorted(tags):
                value = tags[tag]
                self._data += encode_varint(tag) + encode_varint(len(value)) + value
        return self

    def done(self) -> bytes:
        return bytes(self._data)
