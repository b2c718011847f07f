"""Split wanted offsets into Spark tasks: few, balanced by the bytes that are wanted of objects.

A segment holds batches of many partitions, so a task is not a partition: it is a range of seqs of a
chain, with every wanted segment range that lies there. A segment is fetched by one task and once.
Large ranges are split, small ones of several chains share a task, since a Python task costs 11 to
60 ms before it reads anything.

    segment ranges  → seq ranges: neighbouring seqs of one chain that any segment range needs
            → weights: wanted bytes of each segment, and what its requests cost
            → tasks of about equal weight, in the order of the partitions' offsets
            → each task's own part of every segment range, by offsets

The last step is for a task that comes when its segments are gone: what it was to read is then known
exactly, and every offset is read by one task, wherever it lies by then (safety rule 12).

What lies in tables comes before, weighed by the bytes of its files (`history`).

Inside a task the rows of a log partition come in offset order; where several chains would break
that, the task is split. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from logstore.formats.offset_range import OffsetRange
from logstore.formats.segment_ranges import SegmentRange, SplitPoint
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.layout import ChainLayout
from logstore.reading.planning.sequence import in_order
from logstore.reading.planning.table_ranges import (
    TableRange,
    WorkUnit,
    joined,
    table_bytes,
    work_units,
)
from logstore.reading.planning.tasks import Located, ReadTask, SeqRange

MiB = 1024 * 1024
TASK_BYTES = 256 * MiB
"""About a quarter of a second of work; larger tasks balance badly at the end."""

TASK_BYTES_ANYWHERE = 64 * MiB
"""The same where it is not known how many tasks can run at once: a cluster of hundreds of cores has
work for all of them from some gigabytes on, and a task still works longer than its start takes."""

TASK_BYTES_MIN = 8 * MiB
"""Below this a task's fixed cost is not worth another core."""

REQUEST_BYTES = 64 * 1024
"""Cost of one more request beside its bytes: opening a file, or a GET's time to first byte."""

LayoutOf = Callable[[int, Sequence[SegmentRange]], ChainLayout]
"""(chain, its segment ranges) → what has to be read of each of their segments."""

OffsetsAt = Callable[[Sequence[SplitPoint]], Sequence[int]]
"""Per split, the first offset of its segment range in segment `seq` or a later one."""


@dataclass(frozen=True, slots=True)
class _TaskSlice:
    """One segment, or one work unit of tables, with the task that it goes to."""

    item: WorkUnit | tuple[int, int]
    task: int


def plan_tasks(
    places: Located,
    layout_of: LayoutOf,
    offsets_at: OffsetsAt,
    *,
    parallelism: int,
    tasks_min: int | None = None,
    task_bytes: int = TASK_BYTES,
    task_bytes_min: int = TASK_BYTES_MIN,
) -> list[ReadTask]:
    """Tasks that together read every offset of `places` once.

    `parallelism` is how many tasks can run at once; `tasks_min` asks for more, as far as there are
    segments and work units for them. Tasks weigh `task_bytes` where there is enough for all cores,
    and none is split below `task_bytes_min` to keep a core busy. `layout_of` and `offsets_at` may
    raise as the log does; the latter is asked once, for all places where tasks divide a segment
    range.
    """
    by_chain = _by_chain(places.segment_ranges)
    weights: list[tuple[WorkUnit | tuple[int, int], int]] = [
        (work_unit, work_unit.size_bytes + 1) for work_unit in work_units(places.history)
    ]
    item_count = len(weights)
    layouts = {chain: layout_of(chain, mine) for chain, mine in by_chain.items()}
    for chain, layout in layouts.items():
        item_count += sum(read.request_count > 0 for read in layout.reads.values())
        weights += [
            ((chain, seq), 1 + read.wanted_bytes + REQUEST_BYTES * read.request_count)
            for seq, read in layout.reads.items()
        ]
    total = sum(weight for _, weight in weights)
    count = task_count(total, item_count, parallelism, tasks_min, task_bytes, task_bytes_min)
    shares: list[tuple[list[TableRange], list[SeqRange]]] = []
    for _, slices in groupby(_share_out(weights, total, count), attrgetter("task")):
        items = [one.item for one in slices]
        history = joined(item.part for item in items if isinstance(item, WorkUnit))
        seqs = [item for item in items if not isinstance(item, WorkUnit)]
        shares.append((history, _seq_ranges(seqs, by_chain, layouts)))
    splits = [
        split
        for _, seq_ranges in shares
        for seq_range in seq_ranges
        for split in _splits_before(seq_range)
    ]
    offsets = dict(zip(splits, offsets_at(splits), strict=True)) if splits else {}
    return [
        task
        for history, seq_ranges in shares
        for task in _tasks_of(history, list(_own_parts(seq_ranges, offsets)))
    ]


def wanted_bytes(places: Located, layout_of: LayoutOf) -> int:
    """Bytes of their batches, as they are stored in segments, and of tables' files."""
    layouts = (layout_of(*one) for one in _by_chain(places.segment_ranges).items())
    reads = (read for layout in layouts for read in layout.reads.values())
    return sum(read.wanted_bytes for read in reads) + table_bytes(places.history)


def task_count(
    total_weight: int,
    segment_count: int,
    parallelism: int,
    tasks_min: int | None,
    task_bytes: int = TASK_BYTES,
    task_bytes_min: int = TASK_BYTES_MIN,
) -> int:
    """`segment_count`: pieces that are not cut, segments and units of table work."""
    by_size = -(-total_weight // task_bytes)
    for_all_cores = min(parallelism, -(-total_weight // task_bytes_min))
    wanted = max(by_size, for_all_cores, tasks_min or 1, 1)
    return max(1, min(wanted, segment_count))


def _by_chain(segment_ranges: Iterable[SegmentRange]) -> dict[int, list[SegmentRange]]:
    """In the order in which one reader takes the chains, so that offsets rise from task to task.

    Partitions that moved to and fro between two brokers leave no such order: a chain comes once.
    """
    wanted = sorted(segment_ranges, key=attrgetter("first_seq", "offsets.partition"))
    by_chain: dict[int, list[SegmentRange]] = {run.chain: [] for run in in_order(wanted)}
    for segments in wanted:
        by_chain[segments.chain].append(segments)
    return by_chain


def _share_out(
    weights: Sequence[tuple[WorkUnit | tuple[int, int], int]], total: int, count: int
) -> Iterator[_TaskSlice]:
    """Each item goes where its middle lies when the scale is split into `count` equal parts."""
    before = 0
    for item, weight in weights:
        yield _TaskSlice(item, (2 * before + weight) * count // (2 * total))
        before += weight


def _seq_ranges(
    seqs: Iterable[tuple[int, int]],
    by_chain: Mapping[int, Sequence[SegmentRange]],
    layouts: Mapping[int, ChainLayout],
) -> list[SeqRange]:
    ranges: list[tuple[int, int, int]] = []
    for chain, seq in seqs:
        if ranges and ranges[-1][0] == chain and ranges[-1][2] == seq - 1:
            ranges[-1] = (chain, ranges[-1][1], seq)
        else:
            ranges.append((chain, seq, seq))
    return [
        SeqRange(
            chain,
            first,
            last,
            tuple(_within(by_chain[chain], first, last)),
            layouts[chain].places.within(first, last),
        )
        for chain, first, last in ranges
    ]


def _within(
    segment_ranges: Sequence[SegmentRange], first: int, last: int
) -> Iterator[SegmentRange]:
    for segments in segment_ranges:
        if segments.first_seq <= last and segments.last_seq >= first:
            yield segments


def _splits_before(seq_range: SeqRange) -> Iterator[SplitPoint]:
    """Where segment ranges come in from the seq range before: neighbours in seqs, of another
    task.
    """
    for segments in seq_range.segment_ranges:
        if segments.first_seq < seq_range.first_seq:
            yield SplitPoint(segments, seq_range.first_seq)


def _own_parts(
    seq_ranges: Iterable[SeqRange], offsets: Mapping[SplitPoint, int]
) -> Iterator[SeqRange]:
    """The same seq ranges with what of their segment ranges lies in them, by offsets; none for
    nothing.
    """
    for seq_range in seq_ranges:
        parts = [
            part
            for segments in seq_range.segment_ranges
            if (part := _part(segments, seq_range, offsets)) is not None
        ]
        if parts:
            yield replace(seq_range, segment_ranges=tuple(parts))


def _part(
    segments: SegmentRange, seq_range: SeqRange, offsets: Mapping[SplitPoint, int]
) -> SegmentRange | None:
    first, last = segments.first_seq, segments.last_seq
    partition, start, end = segments.offsets
    if first < seq_range.first_seq:
        first, start = seq_range.first_seq, offsets[SplitPoint(segments, seq_range.first_seq)]
    if last > seq_range.last_seq:
        last, end = seq_range.last_seq, offsets[SplitPoint(segments, seq_range.last_seq + 1)]
    if start >= end:
        return None
    part = OffsetRange(partition, start, end)
    return replace(segments, offsets=part, first_seq=first, last_seq=last)


def _tasks_of(history: Sequence[TableRange], seq_ranges: Sequence[SeqRange]) -> Iterator[ReadTask]:
    """One task, or more where a partition went from a younger chain to an older one."""
    mine: list[SeqRange] = []
    reached: dict[TopicPartition, int] = {}
    before = tuple(history)
    for seq_range in seq_ranges:
        if any(
            reached.get(p.offsets.partition, -1) > p.leader_epoch for p in seq_range.segment_ranges
        ):
            yield ReadTask(tuple(mine), before)
            mine, reached, before = [], {}, ()
        mine.append(seq_range)
        for segments in seq_range.segment_ranges:
            reached[segments.offsets.partition] = segments.leader_epoch
    if mine or before:
        yield ReadTask(tuple(mine), before)
