"""The copying of a manifest by a leader: which batches, in which order, in which pieces. Pure.

A partition's batches lie in the manifest's objects, in their order, then in the manifest itself. Of
each object they are one range; a leader's partitions are mostly neighbours there, so they are read
together: a window is some partitions, or a part of one, of at most `WINDOW_BYTES`, and what it has
of one object is one read. All of a window is checked before any of it is appended.

A part is what is appended at once, without a turn for others, and has an adopt end of its own: a
segment that is frozen between a batch and its adopt end would part the records from their memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.formats.manifest import Manifest
from logstore.formats.segment import Entry
from logstore.formats.staged_object import StagedIndex, StagedRange
from logstore.formats.staging_keys import SinkBatch
from logstore.formats.topic_partition import TopicPartition

WINDOW_BYTES = 64 << 20
PART_BATCHES, PART_BYTES = 1_000, 4 << 20
"""At most some 8 ms of the event loop, the freezing of a full segment included."""
GAP_BYTES = 64 * 1024
"""Bytes of others that are read rather than to ask twice."""


class StagedSource(NamedTuple):
    """Where a range of batches lies."""

    key: str
    body_at: int
    found: StagedRange


class PartitionPlan(NamedTuple):
    partition: TopicPartition
    sources: Sequence[StagedSource]
    batches_total: int


class Bite(NamedTuple):
    """Batches of one partition in one object, in a window. The partition's own are numbered from 0
    in the order in which they are appended; `first` is the first one of these."""

    plan: PartitionPlan
    first: int
    source: StagedSource


class StagedRead(NamedTuple):
    """Bytes [start, end) of an object."""

    key: str
    start: int
    end: int


def plan_partitions(
    batch: SinkBatch,
    manifest: Manifest,
    indexes: Iterable[StagedIndex],
    wanted: Iterable[TopicPartition],
) -> list[PartitionPlan]:
    """`indexes` are those of the manifest's objects. Raises `Corrupt` where rows do not add up."""
    sources: dict[TopicPartition, list[StagedSource]] = {one: [] for one in sorted(wanted)}
    for ref, index in zip(manifest.head.objects, indexes, strict=True):
        key = ref.name.key(batch)
        for found in index.ranges:
            if found.partition in sources:
                sources[found.partition].append(StagedSource(key, index.header.body_at, found))
    for found in manifest.inline:
        if found.partition in sources:
            source = StagedSource(manifest.key, manifest.header.body_at, found)
            sources[found.partition].append(source)
    for partition, mine in sources.items():
        rows = sum(source.found.row_count for source in mine)
        if rows != manifest.head.rows[partition]:
            raise Corrupt(
                f"staged objects miscount the rows of a partition: key={manifest.key} "
                f"topic={partition.topic_id.hex()} partition={partition.partition} rows={rows} "
                f"expected={manifest.head.rows[partition]}"
            )
    return [
        PartitionPlan(partition, mine, sum(len(one.found.entries) for one in mine))
        for partition, mine in sources.items()
    ]


def windows(plans: Iterable[tuple[PartitionPlan, int]]) -> Iterator[list[Bite]]:
    """`plans` with the number of batches that each partition has already."""
    window: list[Bite] = []
    size = 0
    for plan, done in plans:
        for bite in _bites(plan, done):
            length = bite.source.found.end - bite.source.found.start
            if window and size + length > WINDOW_BYTES:
                yield window
                window, size = [], 0
            window.append(bite)
            size += length
    if window:
        yield window


def _bites(plan: PartitionPlan, done: int) -> Iterator[Bite]:
    number = 0
    for source in plan.sources:
        entries = source.found.entries
        begin = max(0, done - number)
        while begin < len(entries):
            end = _part_end(entries, begin)
            part = StagedRange(plan.partition, entries[begin:end])
            yield Bite(plan, number + begin, source._replace(found=part))
            begin = end
        number += len(entries)


def _part_end(entries: Sequence[Entry], begin: int) -> int:
    size = 0
    for number in range(begin, min(len(entries), begin + PART_BATCHES)):
        size += entries[number].length
        if size > PART_BYTES and number > begin:
            return number
    return min(len(entries), begin + PART_BATCHES)


def reads_of(window: Iterable[Bite], manifest_key: str) -> list[StagedRead]:
    """The reads that fetch all of a window but the bytes of the manifest, which are here."""
    wanted = sorted(
        StagedRead(bite.source.key, *_span(bite.source))
        for bite in window
        if bite.source.key != manifest_key
    )
    reads: list[StagedRead] = []
    for read in wanted:
        last = reads[-1] if reads else None
        if last is not None and last.key == read.key and read.start <= last.end + GAP_BYTES:
            reads[-1] = last._replace(end=max(last.end, read.end))
        else:
            reads.append(read)
    return reads


def bytes_of(
    source: StagedSource, fetched: Mapping[str, Sequence[tuple[StagedRead, memoryview]]]
) -> memoryview:
    """The bytes of a range, of those that were fetched for its window; fewer if cut short."""
    start, end = _span(source)
    for read, data in fetched[source.key]:
        if read.start <= start and end <= read.end:
            return data[start - read.start : end - read.start]
    raise AssertionError(f"range was not fetched: key={source.key} start={start} end={end}")


def _span(source: StagedSource) -> tuple[int, int]:
    """Where a range lies in its object."""
    return source.body_at + source.found.start, source.body_at + source.found.end
