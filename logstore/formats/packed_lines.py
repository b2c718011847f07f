"""Tables of fixed-size lines that stay bytes: a line is decoded when it is asked for.

A front may list ten thousand epoch ranges, of which a look-up needs one, and readers keep many
fronts; as bytes they cost a tenth of the memory and nothing to make. Pure.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")
Fields = tuple[Any, ...]


class PackedLines(Sequence[V]):
    """Lines of `layout` in their stored order; `make` makes a value of one line's fields."""

    def __init__(
        self, layout: struct.Struct, lines: bytes | memoryview, make: Callable[[Fields], V]
    ) -> None:
        """Raises `struct.error` where `lines` are not whole lines."""
        if len(lines) % layout.size:
            raise struct.error(f"not whole lines: bytes={len(lines)} line={layout.size}")
        self._layout = layout
        self._lines = bytes(lines)
        self._make = make

    @property
    def packed(self) -> bytes:
        """All lines, as they are stored."""
        return self._lines

    def __len__(self) -> int:
        return len(self._lines) // self._layout.size

    @overload
    def __getitem__(self, at: int) -> V: ...

    @overload
    def __getitem__(self, at: slice) -> list[V]: ...

    def __getitem__(self, at: int | slice) -> V | list[V]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(f"no such line: number={at} lines={len(self)}")
        return self._make(self._layout.unpack_from(self._lines, number * self._layout.size))

    def __iter__(self) -> Iterator[V]:
        return map(self._make, self._layout.iter_unpack(self._lines))


class PackedMapping(Mapping[K, V], Generic[K, V]):
    """Lines that begin with a key, sorted by it; looked up by binary search."""

    def __init__(
        self,
        layout: struct.Struct,
        lines: bytes | memoryview,
        key_of: Callable[[Fields], K],
        value_of: Callable[[Fields], V],
    ) -> None:
        self._lines: PackedLines[Fields] = PackedLines(layout, lines, tuple)
        self._key_of = key_of
        self._value_of = value_of

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[K]:
        return map(self._key_of, self._lines)

    def __getitem__(self, key: K) -> V:
        number = bisect_left(self._lines, key, key=self._key_of)
        if number < len(self._lines):
            fields = self._lines[number]
            if self._key_of(fields) == key:
                return self._value_of(fields)
        raise KeyError(key)

    def items(self) -> ItemsView[K, V]:
        return _Items(self, self._pairs)

    def _pairs(self) -> Iterator[tuple[K, V]]:
        return ((self._key_of(fields), self._value_of(fields)) for fields in self._lines)


class _Items(ItemsView[K, V]):
    """Pairs in order, without a search for each."""

    def __init__(
        self, mapping: PackedMapping[K, V], pairs: Callable[[], Iterator[tuple[K, V]]]
    ) -> None:
        super().__init__(mapping)
        self._pairs = pairs

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._pairs()
