"""The copying of a manifest by a leader: which batches, in which order, in which pieces. Pure.

A partition's batches lie in the manifest's objects, in their order, then in the manifest itself. Of
each object they are one range, and a leader's partitions are mostly neighbours there. So a leader
goes over the objects once, for all its partitions together:

    object, object, …  ─►  window: bites of at most `WINDOW_BYTES` ─► read, one GET per object
                                                                   ─► checked, all of it
                                                                   ─► parts, appended one by one

Of an index a bite keeps its own entries alone. A part is what is appended at once, without a turn
for others, and has an adopt end of its own: a segment that is frozen between a batch and its adopt
end would part the records from their memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from logstore.formats.packed_entries import PackedEntries
from logstore.formats.staged_object import StagedRange
from logstore.formats.topic_partition import TopicPartition

WINDOW_BYTES = 64 << 20
WINDOW_BATCHES = 4_096
"""Bites are at most as many, so that one step of the work on a window takes some milliseconds."""
PART_BATCHES, PART_BYTES = 1_000, 4 << 20
"""At most some 8 ms of the event loop, the freezing of a full segment included."""
GAP_BYTES = 64 * 1024
"""Bytes of others that are read rather than to ask twice."""
FRONTS_BYTES = 16 << 20
"""Of indexes that are read ahead."""


class StagedSource(NamedTuple):
    """Where a range of batches lies."""

    key: str
    body_at: int
    found: StagedRange

    @property
    def length(self) -> int:
        return self.found.end - self.found.start


class Bite(NamedTuple):
    """Batches of one partition in one object. The partition's own are numbered from 0 in the order
    in which they are appended; `first` is the first one of these."""

    first: int
    source: StagedSource

    @property
    def partition(self) -> TopicPartition:
        return self.source.found.partition

    @property
    def end(self) -> int:
        return self.first + len(self.source.found.entries)


class StagedRead(NamedTuple):
    """Bytes [start, end) of an object."""

    key: str
    start: int
    end: int


def fronts_at_once(index_bytes_max: int, at_once_max: int) -> int:
    """How many indexes are read ahead, if one has at most so many bytes."""
    return max(1, min(at_once_max, FRONTS_BYTES // max(1, index_bytes_max)))


class CopyPlan:
    """Goes over the objects of a manifest, and then over the batches in its body.

    `before`: batches of each wanted partition in the objects that are left out; `done`: how many it
    has already.
    """

    def __init__(
        self, before: dict[TopicPartition, int], done: Mapping[TopicPartition, int]
    ) -> None:
        self._before = before
        self._done = done

    def bites(self, key: str, body_at: int, ranges: Iterable[StagedRange]) -> Iterator[Bite | None]:
        """Batches of the next object to copy, in the order of its body; None for each range without
        any, as most may be: also then others may have a turn. To be taken to its end.
        """
        for found in ranges:
            number = self._before.get(found.partition)
            if number is None:
                yield None
                continue
            end = self._before[found.partition] = number + len(found.entries)
            begin = max(number, self._done[found.partition])
            if begin >= end:
                yield None
            while begin < end:
                cut = begin + _part_count(found.entries[begin - number :])
                entries = found.entries[begin - number : cut - number].alone()
                yield Bite(begin, StagedSource(key, body_at, StagedRange(found.partition, entries)))
                begin = cut


class CopyWindow:
    """Bites that are read and checked together."""

    def __init__(self) -> None:
        self.bites: list[Bite] = []
        self._bytes = 0
        self._batches = 0

    def has_room(self, bite: Bite) -> bool:
        """Also for a first bite, whatever its size."""
        return not self.bites or (
            self._bytes + self._read_bytes(bite) <= WINDOW_BYTES
            and self._batches + len(bite.source.found.entries) <= WINDOW_BATCHES
        )

    def add(self, bite: Bite) -> None:
        self._bytes += self._read_bytes(bite)
        self._batches += len(bite.source.found.entries)
        self.bites.append(bite)

    def _read_bytes(self, bite: Bite) -> int:
        """Bytes that are read for it, a small gap behind the bite before included."""
        start, end = _span(bite.source)
        if self.bites and self.bites[-1].source.key == bite.source.key:
            _, before = _span(self.bites[-1].source)
            if 0 < start - before <= GAP_BYTES:
                start = before
        return end - start


def _part_count(entries: PackedEntries) -> int:
    """How many of these make a part."""
    size = 0
    for number, entry in enumerate(entries[:PART_BATCHES]):
        size += entry.length
        if size > PART_BYTES and number:
            return number
    return min(len(entries), PART_BATCHES)


def parts_of(bites: Iterable[Bite]) -> list[list[Bite]]:
    """The bites of a window, those of one partition joined as far as a part may go."""
    parts: list[list[Bite]] = []
    last_of: dict[TopicPartition, list[Bite]] = {}
    size_of: dict[TopicPartition, int] = {}
    for bite in bites:
        part = last_of.get(bite.partition)
        size = size_of.get(bite.partition, 0) + bite.source.length
        if part is None or bite.end - part[0].first > PART_BATCHES or size > PART_BYTES:
            part, size = [], bite.source.length
            last_of[bite.partition] = part
            parts.append(part)
        part.append(bite)
        size_of[bite.partition] = size
    return parts


def reads_of(bites: Iterable[Bite], manifest_key: str) -> tuple[list[StagedRead], list[int]]:
    """The reads that fetch all bites, in the order of `CopyPlan`, and for each bite the number of
    its read; -1: it lies in the manifest, which is here."""
    reads: list[StagedRead] = []
    numbers: list[int] = []
    for bite in bites:
        key, (start, end) = bite.source.key, _span(bite.source)
        if key == manifest_key:
            numbers.append(-1)
            continue
        last = reads[-1] if reads else None
        if last is not None and last.key == key and last.start <= start <= last.end + GAP_BYTES:
            reads[-1] = last._replace(end=max(last.end, end))
        else:
            reads.append(StagedRead(key, start, end))
        numbers.append(len(reads) - 1)
    return reads, numbers


def bytes_of(source: StagedSource, data: memoryview, data_at: int) -> memoryview:
    """The bytes of a range, of those of its object from `data_at` on; fewer if cut short."""
    start, end = _span(source)
    return data[start - data_at : end - data_at]


def _span(source: StagedSource) -> tuple[int, int]:
    """Where a range lies in its object."""
    return source.body_at + source.found.start, source.body_at + source.found.end
