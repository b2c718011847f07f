"""Entries of an index as they are stored: each is unpacked when it is looked at. Pure.

Packed, an entry takes 96 bytes of memory; as an `Entry`, some 500.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, overload

from logstore.formats.segment import ENTRY, ENTRY_BYTES, Entry
from logstore.formats.topic_partition import TopicPartition

_PARTITION = Struct(">4xi16s")
"""The start of an entry: kind, flags and place are left out."""


class PackedEntries(Sequence[Entry]):
    """Entries [start, end) of `packed`, which they keep in memory."""

    __slots__ = ("_end", "_packed", "_start")

    def __init__(self, packed: bytes, start: int, end: int) -> None:
        self._packed = packed
        self._start = start
        self._end = end

    def __len__(self) -> int:
        return self._end - self._start

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> "PackedEntries": ...

    def __getitem__(self, at: int | slice) -> "Entry | PackedEntries":
        if isinstance(at, slice):
            first, last, step = at.indices(len(self))
            assert step == 1, "entries are cut into runs alone"
            return PackedEntries(self._packed, self._start + first, self._start + max(first, last))
        number = at if at >= 0 else len(self) + at
        if not 0 <= number < len(self):
            raise IndexError(at)
        return Entry._make(ENTRY.unpack_from(self._packed, (self._start + number) * ENTRY_BYTES))

    def alone(self) -> "PackedEntries":
        """The same, without the rest of the index in memory."""
        packed = self._packed[self._start * ENTRY_BYTES : self._end * ENTRY_BYTES]
        return PackedEntries(packed, 0, len(self))

    def __iter__(self) -> Iterator[Entry]:
        return map(Entry._make, self.tuples())

    def partition_of(self, number: int) -> TopicPartition:
        partition, topic_id = _PARTITION.unpack_from(
            self._packed, (self._start + number) * ENTRY_BYTES
        )
        return TopicPartition(topic_id, partition)

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """The fields of each."""
        view = memoryview(self._packed)[self._start * ENTRY_BYTES : self._end * ENTRY_BYTES]
        return ENTRY.iter_unpack(view)
