"""Offsets that a topic's table holds, as work for Spark tasks: which files, and how it is split.

A table's files are of one partition, so their bytes can be dealt out by offsets: a range is split
into work units, each about as much as a row group, which is the least that a reader of Parquet
fetches. What a file weighs between its bounds is taken to be even. Pure.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from logstore.formats.offset_range import OffsetRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import DataFile, Snapshot

WORK_UNIT_BYTES = 8 * 1024 * 1024
FILE_BYTES = 64 * 1024
"""Cost of one more file beside its bytes: its footer is a request, and so is each row group."""


@dataclass(frozen=True, slots=True)
class TableRange:
    """Offsets of one partition, and every file of its table that may hold some.

    There may be fewer rows than offsets, or none: control batches, transactions that were aborted,
    keys that were compacted away.
    """

    offsets: OffsetRange
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """A part of a range that is not split further; `files` are those of the part."""

    part: TableRange
    size_bytes: int


def table_range(
    snapshot: Snapshot | None, partition: int, start: int, end: int
) -> TableRange | None:
    """As much of [start, end) as the table holds. What lies above it does not: in segments."""
    reached = None if snapshot is None else snapshot.end(partition)
    if snapshot is None or reached is None or reached <= start:
        return None
    end = min(end, reached)
    files = tuple(snapshot.files_for(partition, start, end))
    offsets = OffsetRange(TopicPartition(snapshot.topic_id, partition), start, end)
    return TableRange(offsets, files)


def table_bytes(ranges: Iterable[TableRange]) -> int:
    """Bytes of files that reading `ranges` takes, about: files count by the offsets wanted."""
    return sum(work_unit.size_bytes for work_unit in work_units(ranges))


def work_units(ranges: Iterable[TableRange]) -> Iterator[WorkUnit]:
    """The same offsets in small parts, in the same order; none for what no file may hold."""
    for one in ranges:
        yield from _work_units_of(one)


def joined(parts: Iterable[TableRange]) -> list[TableRange]:
    """The same offsets in as few ranges as can be, where neighbours stand beside each other."""
    ranges: list[TableRange] = []
    for part in parts:
        last = ranges[-1] if ranges else None
        if last is not None and _is_next(last, part):
            known = {file.path for file in last.files}
            files = last.files + tuple(file for file in part.files if file.path not in known)
            ranges[-1] = TableRange(last.offsets._replace(end=part.offsets.end), files)
        else:
            ranges.append(part)
    return ranges


def _work_units_of(one: TableRange) -> Iterator[WorkUnit]:
    """Split where another `WORK_UNIT_BYTES` have gathered, sweeping over the bounds of files."""
    if not one.files:
        return
    remaining = deque(one.files)
    active: list[DataFile] = []
    for start, end, size_bytes in _splits(one):
        active = [file for file in active if file.max_offset >= start]
        while remaining and remaining[0].min_offset < end:
            active.append(remaining.popleft())
        files = _within(active, start, end)
        if files:
            offsets = OffsetRange(one.offsets.partition, start, end)
            yield WorkUnit(TableRange(offsets, files), size_bytes)


def _splits(one: TableRange) -> Iterator[tuple[int, int, int]]:
    """(start, end, bytes) of the parts of a range that together are all of it."""
    start, gathered = one.offsets.start, 0.0
    for low, high, density in _densities(one):
        at = low
        while gathered + density * (high - at) > WORK_UNIT_BYTES and at < high:
            step = max(1, int((WORK_UNIT_BYTES - gathered) / density))
            at = min(high, at + step)
            yield start, at, int(gathered + density * step)
            start, gathered = at, 0.0
        gathered += density * (high - at)
    if start < one.offsets.end:
        yield start, one.offsets.end, int(gathered)


def _densities(one: TableRange) -> Iterator[tuple[int, int, float]]:
    """(from, to, bytes per offset) over a range, between the bounds of its files."""
    steps: dict[int, float] = {one.offsets.start: 0.0, one.offsets.end: 0.0}
    for file in one.files:
        low, high = one.offsets.start, one.offsets.end
        if file.has_bounds:
            low, high = max(low, file.min_offset), min(high, file.max_offset + 1)
            span = file.max_offset + 1 - file.min_offset
        else:
            span = high - low
        density = (file.size_bytes + FILE_BYTES) / span
        steps[low] = steps.get(low, 0.0) + density
        steps[high] = steps.get(high, 0.0) - density
    density, at = 0.0, one.offsets.start
    for place, change in sorted(steps.items()):
        if place > at:
            yield at, place, max(density, 0.0)
        density, at = density + change, place


def _within(files: Sequence[DataFile], start: int, end: int) -> tuple[DataFile, ...]:
    return tuple(file for file in files if file.min_offset < end and file.max_offset >= start)


def _is_next(first: TableRange, second: TableRange) -> bool:
    before, after = first.offsets, second.offsets
    return (before.partition, before.end) == (after.partition, after.start)
