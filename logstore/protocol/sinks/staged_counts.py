"""Counts the rows and batches of a manifest, object by object, before any of it is copied. Pure.

    index of object 0, 1, 2, … ─► rows and batches of each partition ─► compared with the manifest

A leader must know how many batches a partition gets before it copies the first: each adopt end says
that number. Of the indexes nothing else is kept, however many objects there are, but marks: how
many batches each partition has in the objects before some of them. A leader that goes on with what
was copied in part begins at a mark, and reads none of the objects before it.

Counting goes on where it was interrupted, between two ranges of one object too.
"""

from array import array
from collections.abc import Mapping
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.formats.manifest import Manifest
from logstore.formats.staged_object import StagedIndex, StagedRanges
from logstore.formats.topic_partition import TopicPartition
from logstore.slices import Slices

MARKS_MAX = 64
MARKS_BYTES_MAX = 4 << 20
_SLICE_RANGES = 2_048
"""Some four milliseconds of work."""


class CopyStart(NamedTuple):
    """Copying begins at object `number`; each partition has `before` batches in those before it."""

    number: int
    before: dict[TopicPartition, int]


class StagedCounts:
    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._order: dict[TopicPartition, int] = {
            partition: at for at, partition in enumerate(manifest.head.rows)
        }
        self._rows = array("q", bytes(8 * len(self._order)))
        self._batches = array("I", bytes(4 * len(self._order)))
        marks_max = max(1, min(MARKS_MAX, MARKS_BYTES_MAX // (4 * max(1, len(self._order)))))
        self._step = max(1, -(-len(manifest.head.objects) // marks_max))
        self._marks: list[array[int]] = []
        self._ranges_done = 0
        self.objects_done = 0
        self.is_complete = False
        self.index_bytes_max = 0
        """Size of the largest index so far."""

    @property
    def manifest_key(self) -> str:
        return self._manifest.key

    def add(self, index: StagedIndex) -> Slices[None]:
        """The index of the next object. Raises `Corrupt`."""
        ref = self._manifest.head.objects[self.objects_done]
        if self.objects_done == len(self._marks) * self._step:
            self._marks.append(array("I", self._batches))
        yield from self._count(index.ranges, f"{ref.name}")
        self.index_bytes_max = max(self.index_bytes_max, index.header.index_bytes)
        self._ranges_done = 0
        self.objects_done += 1

    def finish(self) -> Slices[None]:
        """All objects are counted. Raises `Corrupt` unless the manifest counts the same."""
        yield from self._count(self._manifest.inline, "inline")
        for at, (partition, expected) in enumerate(self._manifest.head.rows.items()):
            if self._rows[at] != expected:
                raise Corrupt(
                    "staged objects miscount the rows of a partition: "
                    f"key={self._manifest.key} {partition} "
                    f"rows={self._rows[at]} expected={expected}"
                )
            if at % _SLICE_RANGES == _SLICE_RANGES - 1:
                yield
        self.is_complete = True

    def _count(self, ranges: StagedRanges, name: str) -> Slices[None]:
        """Goes on behind the ranges of `ranges` that are counted."""
        while self._ranges_done < len(ranges):
            end = self._ranges_done + _SLICE_RANGES
            for partition, rows, batches in ranges.counts(self._ranges_done, end):
                at = self._order.get(partition)
                if at is None:
                    raise Corrupt(
                        "staged object has rows of a partition that its manifest does not name: "
                        f"key={self._manifest.key} object={name} "
                        f"{partition}"
                    )
                self._rows[at] += rows
                self._batches[at] += batches
                self._ranges_done += 1
            yield

    # Once it is complete

    def batches_total(self, partition: TopicPartition) -> int:
        return self._batches[self._order[partition]]

    def start_of(self, done: Mapping[TopicPartition, int]) -> Slices[CopyStart]:
        """Where to begin for partitions that have so many batches: at the last mark before which
        none of them lacks any."""
        pairs = [(self._order[partition], count) for partition, count in done.items()]
        number = 0
        for mark in range(1, len(self._marks)):
            counts = self._marks[mark]
            if any(counts[at] > count for at, count in pairs):
                break
            number = mark
            yield
        counts = self._marks[number] if self._marks else self._batches
        before = {
            partition: counts[at] if number else 0
            for partition, (at, _) in zip(done, pairs, strict=True)
        }
        return CopyStart(number * self._step, before)
