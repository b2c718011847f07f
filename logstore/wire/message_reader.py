"""Reads single fields, for messages whose code is not unrolled field by field. Pure.

    def _read_topic_v2(o: Topic, r: MessageReader) -> None:
        o.name = r.string()                                  one line per field
        o.error_code, o.size, n = r.fixed(_hii)              or per run of numbers, with the length
        o.configs = r.array(Config, _read_config_v2, 4, n)   of what follows

`n` is a length or count as it stands on the wire; a method without it reads its own. The forms are
drawn in `logstore.wire.primitives`, and so are the checks: text, field and byte of each error are
those of unrolled code: so `MessageReader.at` stays at a field until it is read whole.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeVar

from logstore.wire.primitives import (
    UNREADABLE,
    Buffer,
    Decode,
    Message,
    bad_count,
    bad_length,
    decode_compact_string_array,
    decode_fixed_array,
    decode_string_array,
    decode_string_length,
    decode_tag,
    decode_varint,
    skip_tags,
    unreadable,
)

M = TypeVar("M", bound=Message)

Read = Callable[[M, "MessageReader"], None]
"""Reads the fields of one struct in one version."""

_SHORT = Struct(">h")
_INT = Struct(">i")

_new = object.__new__


def decoder(kind: type[M], read: Read[M]) -> Decode[M]:
    """Returns the function that decodes a whole message."""

    def decode(data: Buffer, at: int, end: int, count_max: int) -> tuple[M, int]:
        reader = MessageReader(data if type(data) is bytes else bytes(data), at, end, count_max)
        return reader.struct(kind, read), reader.at

    return decode


class MessageReader:
    """A place in the bytes of a message."""

    __slots__ = ("at", "buf", "count_max", "end")

    def __init__(self, buf: bytes, at: int, end: int, count_max: int) -> None:
        self.buf = buf
        self.at = at
        self.end = end
        self.count_max = count_max

    def fixed(self, run: Struct) -> tuple[Any, ...]:
        at = self.at
        values = run.unpack_from(self.buf, at)
        self.at = at + run.size
        return values

    def string(self, n: int | None = None) -> str:
        if n is None:
            (n,) = self.fixed(_SHORT)
        at = self.at
        stop = at + n
        if not at <= stop <= self.end:
            raise bad_length(n, self.end - at)
        text = self.buf[at:stop].decode()
        self.at = stop
        return text

    def nullable_string(self, n: int | None = None) -> str | None:
        if n is None:
            (n,) = self.fixed(_SHORT)
        return None if n == -1 else self.string(n)

    def compact_string(self, n: int | None = None) -> str:
        at = self.at
        if n is None:
            n = self.buf[at]
            self.at = at = at + 1
        if n > 127:
            n, self.at = decode_string_length(self.buf, at - 1)
            at = self.at
        stop = at + n - 1
        if not at <= stop <= self.end:
            raise bad_length(n - 1, self.end - at)
        text = self.buf[at:stop].decode()
        self.at = stop
        return text

    def compact_nullable_string(self, n: int | None = None) -> str | None:
        if n is None:
            n = self._byte()
        if n > 127:  # null can be so, too: 0 in two bytes
            n, self.at = decode_string_length(self.buf, self.at - 1)
        return self.string(n - 1) if n else None

    def blob(self, n: int | None = None) -> bytes:
        if n is None:
            (n,) = self.fixed(_INT)
        at = self.at
        stop = at + n
        if not at <= stop <= self.end:
            raise bad_length(n, self.end - at)
        self.at = stop
        return self.buf[at:stop]

    def compact_blob(self, n: int | None = None) -> bytes:
        return self.blob(self._length(n))

    def array(self, kind: type[M], read: Read[M], least: int, n: int | None = None) -> list[M]:
        """Read structs; `least`: the fewest bytes that one takes."""
        if n is None:
            (n,) = self.fixed(_INT)
        return self._items(kind, read, least, n)

    def nullable_array(
        self, kind: type[M], read: Read[M], least: int, n: int | None = None
    ) -> list[M] | None:
        if n is None:
            (n,) = self.fixed(_INT)
        return None if n == -1 else self._items(kind, read, least, n)

    def compact_array(
        self, kind: type[M], read: Read[M], least: int, n: int | None = None
    ) -> list[M]:
        return self._items(kind, read, least, self._length(n))

    def compact_nullable_array(
        self, kind: type[M], read: Read[M], least: int, n: int | None = None
    ) -> list[M] | None:
        count = self._length(n)
        return None if count == -1 else self._items(kind, read, least, count)

    def strings(self, n: int | None = None) -> list[str]:
        if n is None:
            (n,) = self.fixed(_INT)
        values, self.at = decode_string_array(self.buf, self.at, self.end, self.count_max, n)
        return values

    def nullable_strings(self, n: int | None = None) -> list[str] | None:
        if n is None:
            (n,) = self.fixed(_INT)
        return None if n == -1 else self.strings(n)

    def compact_strings(self, n: int | None = None) -> list[str]:
        return self._compact_strings(self._length(n))

    def compact_nullable_strings(self, n: int | None = None) -> list[str] | None:
        count = self._length(n)
        return None if count == -1 else self._compact_strings(count)

    def numbers(self, one: Struct, n: int | None = None) -> list[int]:
        if n is None:
            (n,) = self.fixed(_INT)
        values, self.at = decode_fixed_array(self.buf, self.at, self.end, self.count_max, n, one)
        return values

    def compact_numbers(self, one: Struct, n: int | None = None) -> list[int]:
        return self.numbers(one, self._length(n))

    def compact_nullable_numbers(self, one: Struct, n: int | None = None) -> list[int] | None:
        count = self._length(n)
        return None if count == -1 else self.numbers(one, count)

    def struct(self, kind: type[M], read: Read[M]) -> M:
        o = _new(kind)
        try:
            read(o, self)
        except UNREADABLE as failure:
            raise unreadable(failure, self.at, o) from None
        return o

    def nullable_struct(self, kind: type[M], read: Read[M], n: int) -> M | None:
        """`n` below 0 is null (KIP-893)."""
        return None if n < 0 else self.struct(kind, read)

    def tags(self, n: int | None = None) -> None:
        """Pass over a tag section."""
        if n is None:
            at = self.at
            n = self.buf[at]
            self.at = at + 1
        if n:
            self.at = skip_tags(self.buf, self.at - 1, self.end)

    def known_tags(
        self, o: M, read_tag: Callable[[M, "MessageReader", int], bool], n: int | None = None
    ) -> None:
        """Read a tag section; `read_tag` says whether it knows a tag, and reads it."""
        if n is None:
            n = self._byte()
        if not n:
            return
        self.at -= 1
        count, self.at = decode_varint(self.buf, self.at)
        for _ in range(count):
            tag, self.at, end = decode_tag(self.buf, self.at, self.end)
            if not read_tag(o, self, tag):
                self.at = end
            if self.at != end:
                raise ValueError(f"tag={tag} does not end where it says")

    def _compact_strings(self, count: int) -> list[str]:
        buf, at = self.buf, self.at
        values, self.at = decode_compact_string_array(buf, at, self.end, self.count_max, count)
        return values

    def _byte(self) -> int:
        byte = self.buf[self.at]
        self.at += 1
        return byte

    def _length(self, n: int | None) -> int:
        """Returns the length or count of a compact form, -1 for null."""
        if n is None:
            at = self.at
            n = self.buf[at]
            self.at = at + 1
        if n > 127:
            n, self.at = decode_varint(self.buf, self.at - 1)
        return n - 1

    def _items(self, kind: type[M], read: Read[M], least: int, count: int) -> list[M]:
        items: list[M] = []
        if not count:
            return items
        at = self.at
        if not 0 <= count <= self.count_max or count * least > self.end - at:
            raise bad_count(kind.__name__, at, count, self.count_max, self.end - at)
        try:
            for _ in range(count):
                item = _new(kind)
                items.append(item)
                read(item, self)
        except UNREADABLE as failure:
            raise unreadable(failure, self.at, items[-1]) from None
        return items
