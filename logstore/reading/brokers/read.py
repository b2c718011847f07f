"""Read batches of one partition: from memory at the tail, else by index and segment cache.

A chunk is whole batches in offset order, starting with the one that holds the requested offset; the
client drops records below it. The first batch comes whole however large it is.

The index of an offset is in one of three places: in memory, from the last checkpoint of the chain
that the partition's leader writes; in checkpoints; or, of an epoch range that is over in a chain
without a checkpoint since, in memory of a follower of that chain. Index rows migrate between these
places concurrently; on a miss, the look-up is retried.

What lies below the trim points of chains is not here (`reading.brokers.tiers`).
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol

from logstore.errors import Corrupt, Retryable
from logstore.formats.chain_state import EpochKey, EpochRange
from logstore.formats.checkpoint import Checkpoint
from logstore.formats.index_rows import (
    find_offset,
    find_time,
    largest_timestamp,
    row_at,
    row_count,
    some_from,
)
from logstore.formats.keys import segment_key
from logstore.formats.partition_row import EpochEntry
from logstore.protocol.partitions.epoch_ranges import (
    ChainCheckpoints,
    epoch_range_of,
    first_in_segments,
)
from logstore.protocol.partitions.lookup import (
    BelowTrimPoint,
    FoundRows,
    front_unless_trimmed,
    rows_for_offset,
    rows_for_time,
)
from logstore.protocol.rows.metadata import read_partition_row
from logstore.protocol.steps import Steps, sliced
from logstore.reading.brokers.cache import SegmentCache
from logstore.reading.brokers.readable import Readable
from logstore.reading.brokers.segment_parts import WHOLE_BYTES_MAX, SegmentPart, SegmentParts
from logstore.reading.brokers.segments_ahead import SegmentsAhead
from logstore.reading.planning.read_plan import BodySlice, ReadPlan, check_batches, planned
from logstore.records.lookup import first_record_at_or_after, record_with_max_timestamp
from logstore.runners.step_runner import StepRunner

LOADS_AT_ONCE = 4
READS_MAX = 5
"""An owner makes a checkpoint once in 256 segments: not during five look-ups in a row."""
SEGMENTS_MAX = 32
"""That one read may wait for: eight rounds of requests, two seconds of a bucket."""
COPIED_SHARE = 8
"""Less than an eighth of a segment is copied for an answer, rather than keep all of it."""


class NotCheckpointed(Protocol):
    """Finds epoch ranges in chains beyond their last checkpoint."""

    async def epoch_range(self, epoch: int, key: EpochKey, offset: int) -> EpochRange | None: ...


class Chunk(NamedTuple):
    """Batches as buffers to be sent one after the other; `end_offset` is where to read on."""

    buffers: Sequence[memoryview]
    byte_count: int
    end_offset: int


def compact(chunk: Chunk) -> Chunk:
    """The same batches; those much smaller than the segment that they are views of are copied.

    A view keeps the whole segment in memory for as long as its answer is not taken.
    """
    buffers = [_small_copied(buffer) for buffer in chunk.buffers]
    return Chunk(buffers, chunk.byte_count, chunk.end_offset)


def _small_copied(buffer: memoryview) -> memoryview:
    return memoryview(bytes(buffer)) if len(buffer) * COPIED_SHARE < _size(buffer) else buffer


def _size(buffer: memoryview) -> int:
    """Of the object that `buffer` is a view of."""
    return memoryview(buffer.obj).nbytes


class FoundRecord(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def read_in_memory(
    partition: Readable, cache: SegmentCache, offset: int, up_to: int, bytes_max: int
) -> Chunk | None:
    """Batches from `offset` to below `up_to`; None: not all in memory, use `Reader.read`."""
    if offset >= up_to:
        return Chunk((), 0, offset)
    if offset < partition.first_offset_in_memory or offset < partition.edited_end:
        return None
    plan = planned(*partition.rows_for_offset(offset), up_to, bytes_max)
    chain = partition.epoch_ranges[-1].chain
    bodies = {}
    for piece in plan.slices:
        body = cache.peek(chain, piece.seq)
        if body is None:
            return None
        bodies[piece.seq] = body
    return _chunk(plan, bodies)


class Reader:
    """Reads segments that may not be in memory; every wait is for the store or the registry.

    Where the segments of an offset may be gone it raises `BelowTrimPoint`, or `NotFound` as the
    store does: neither says that there is nothing.
    """

    def __init__(
        self,
        runner: StepRunner,
        cache: SegmentCache,
        checkpoints: ChainCheckpoints,
        followers: NotCheckpointed,
        *,
        ahead_bytes_max: int = 0,
        whole_bytes_max: int = WHOLE_BYTES_MAX,
    ) -> None:
        self._runner = runner
        self._cache = cache
        self._checkpoints = checkpoints
        self._followers = followers
        self._parts = SegmentParts(runner, checkpoints.cache, whole_bytes_max=whole_bytes_max)
        self.ahead = SegmentsAhead(
            cache, self.rows, self._parts, runner.clock, bytes_max=ahead_bytes_max
        )

    # Batches

    async def read(
        self,
        partition: Readable,
        offset: int,
        up_to: int,
        bytes_max: int,
        consumer: str | None = None,
    ) -> Chunk:
        """Batches from `offset` to below `up_to`, of at most `SEGMENTS_MAX` segments at a time.

        Raises `BelowTrimPoint`, `Corrupt` for a damaged segment, or as the store does. `consumer`
        names one that may go on where this ends: then segments are read ahead of it.
        """
        if offset >= up_to:
            return Chunk((), 0, offset)
        located = await self.rows(partition, offset)
        plan = planned(located.rows, located.number, up_to, bytes_max, SEGMENTS_MAX)
        if consumer is None:
            return await self._load(located, plan)
        began_s = self._runner.clock.monotonic_s()
        self.ahead.note(consumer, partition, offset, plan.end_offset, up_to)
        chunk = await self._load(located, plan)
        waited_s = self._runner.clock.monotonic_s() - began_s
        self.ahead.note_wait(consumer, partition, waited_s)
        return chunk

    async def _load(self, located: FoundRows, plan: ReadPlan) -> Chunk:
        """Small parts are copied as they come: of a scattered partition, which has little in each
        of its segments, a few segments are in memory at a time.
        """
        parts = await self._parts.of(located)
        placed = [(parts.part(piece.seq, piece.start, piece.end), piece) for piece in plan.slices]
        by_part = [(part, [*mine]) for part, mine in groupby(placed, itemgetter(0))]
        buffers: list[memoryview] = []
        for first in range(0, len(by_part), LOADS_AT_ONCE):
            some = by_part[first : first + LOADS_AT_ONCE]
            fetched = await asyncio.gather(*(self._cache.part(part) for part, _ in some))
            for data, (_, mine) in zip(fetched, some, strict=True):
                buffers += [await self._batches(data, *one, located) for one in mine]
            del fetched, data
        return Chunk(buffers, plan.byte_count, plan.end_offset)

    async def begin(self, partition: Readable) -> int:
        """The smallest offset whose segment is not below a trim point, by the rows as of now."""
        return await self._runner.run(
            first_in_segments(
                self._checkpoints.cache,
                partition.topic_id,
                partition.partition,
                partition.epoch_ranges,
            )
        )

    async def rows(self, partition: Readable, offset: int) -> FoundRows:
        """Index rows from the batch that holds `offset` on. Raises `BelowTrimPoint`."""
        for _ in range(READS_MAX):
            _check_listed(partition, offset)
            if offset >= partition.first_offset_in_memory:
                rows, number = partition.rows_for_offset(offset)
                return FoundRows(partition.key, partition.epoch_ranges[-1].chain, rows, number)
            located = await self._rows_elsewhere(partition, offset)
            if located is not None:
                return located
        await self._check_not_trimmed(partition, offset)
        raise Corrupt(f"no index row for an offset: {partition.topic_partition} offset={offset}")

    async def _check_not_trimmed(self, partition: Readable, offset: int) -> None:
        """Raises `BelowTrimPoint` where checkpoints that are known of here have been deleted, or
        the row lists the epoch range no more: its chain may have forgotten it.
        """
        _check_listed(partition, offset)
        ref = epoch_range_of(partition.epoch_ranges, offset)
        chain = ref.chain
        row = await self._runner.run(read_partition_row(partition.topic_id, partition.partition))
        if row is None or all(ref.leader_epoch != one.leader_epoch for one in row.epoch_ranges):
            raise BelowTrimPoint(f"epoch range is no longer listed: chain={chain} offset={offset}")
        known = await self._runner.run(self._checkpoints.of(chain))
        if known and await self._front(chain, known[-1]) is None:
            raise BelowTrimPoint(
                f"index is trimmed: chain={chain} offset={offset}; read its row again"
            )

    async def _rows_elsewhere(self, partition: Readable, offset: int) -> FoundRows | None:
        ref = epoch_range_of(partition.epoch_ranges, offset)
        key = EpochKey(partition.topic_id, partition.partition, ref.leader_epoch)
        known = await self._runner.run(self._checkpoints.of(ref.chain))
        located = await self._runner.run(
            rows_for_offset(self._checkpoints.cache, ref.chain, known, key, offset)
        )
        if located is not None or _is_current(partition, ref):
            return located
        epoch_range = await self._followers.epoch_range(ref.chain, key, offset)
        here = None if epoch_range is None else find_offset([epoch_range.rows], offset)
        return None if here is None else FoundRows(key, ref.chain, *here)

    # Records by time

    async def record_at_time(
        self, partition: Readable, timestamp: int, up_to: int, from_offset: int
    ) -> FoundRecord | None:
        """The first record at or after `timestamp` (ms) in [`from_offset`, `up_to`), if any."""
        located = await self._rows_for_time(partition, timestamp, from_offset)
        if located is None or row_at(located.rows, located.number).base_offset >= up_to:
            return None
        row = row_at(located.rows, located.number)
        batch = await self._batch(located)
        record = await _in_thread(
            partial(first_record_at_or_after, batch, timestamp, from_offset=from_offset)
        )
        if record is None and row.base_offset < from_offset <= row.last_offset:
            # Log start lies in this batch, and only records below it are late enough.
            return await self.record_at_time(partition, timestamp, up_to, row.last_offset + 1)
        return None if record is None else FoundRecord(*record, located.key.leader_epoch)

    async def _rows_for_time(
        self, partition: Readable, timestamp: int, from_offset: int
    ) -> FoundRows | None:
        epoch_ranges = partition.epoch_ranges  # the row may drop some during this look-up
        for number, ref in enumerate(epoch_ranges):
            end = _end_of(epoch_ranges, number)
            if end is not None and end <= max(ref.start, from_offset):
                continue
            located = await self._rows_of_epoch_range(partition, ref, end, timestamp, from_offset)
            if located is not None:
                return located
        return None

    async def _rows_of_epoch_range(
        self, partition: Readable, ref: EpochEntry, end: int | None, timestamp: int, offset: int
    ) -> FoundRows | None:
        """Of one epoch range, from `offset` on. Raises `Retryable`."""
        for _ in range(READS_MAX):
            known = await self._runner.run(self._checkpoints.of(ref.chain))
            located = await self._runner.run(
                self._checkpointed_for_time(partition, ref, known, timestamp, offset)
            )
            if located is not None:
                return located
            located = await self._beyond_for_time(partition, ref, end, known, timestamp, offset)
            if known == await self._runner.run(self._checkpoints.of(ref.chain)):
                return located
            # Rows moved from memory into a checkpoint between the two look-ups: retry.
        raise _keeps_changing(ref.chain)

    async def _beyond_for_time(
        self,
        partition: Readable,
        ref: EpochEntry,
        end: int | None,
        known: Sequence[int],
        timestamp: int,
        from_offset: int,
    ) -> FoundRows | None:
        """Among the rows that no checkpoint holds yet."""
        key = EpochKey(partition.topic_id, partition.partition, ref.leader_epoch)
        if end is None:
            here = None
            if partition.key == key:
                here = partition.rows_for_time(timestamp, from_offset)
            return None if here is None else FoundRows(key, ref.chain, *here)
        if await self._is_checkpointed(ref.chain, known, key, end):
            return None
        epoch_range = await self._followers.epoch_range(ref.chain, key, end - 1)
        here = (
            None if epoch_range is None else find_time([epoch_range.rows], timestamp, from_offset)
        )
        return None if here is None else FoundRows(key, ref.chain, *here)

    def _checkpointed_for_time(
        self,
        partition: Readable,
        ref: EpochEntry,
        known: Sequence[int],
        timestamp: int,
        from_offset: int,
    ) -> Steps[FoundRows | None]:
        key = EpochKey(partition.topic_id, partition.partition, ref.leader_epoch)
        cache = self._checkpoints.cache
        return rows_for_time(cache, ref.chain, known, key, timestamp, from_offset)

    async def record_with_max_timestamp(
        self, partition: Readable, up_to: int, from_offset: int, above: int = -1
    ) -> FoundRecord | None:
        """The record in [`from_offset`, `up_to`) with the largest timestamp, the first of several.

        None if that is not larger than `above` (ms).
        """
        largest, at = await self._max_timestamp(partition, up_to)
        if largest > above and not from_offset <= at < up_to:
            # Indexes sum up whole epoch ranges, also records that are deleted or in the table.
            largest, at = await self._max_timestamp_from(partition, from_offset, up_to)
        if largest <= above:
            return None
        located = await self.rows(partition, max(at, from_offset))
        batch, row = await self._batch(located), row_at(located.rows, located.number)
        look_up = partial(record_with_max_timestamp, batch, from_offset=from_offset)
        record = await _in_thread(look_up)
        best = None if record is None else FoundRecord(*record, located.key.leader_epoch)
        if best is not None and best.timestamp <= above:
            best = None
        if row.base_offset < from_offset and row.last_offset + 1 < up_to:
            # The largest timestamp of this batch may be that of a record below `from_offset`.
            above = above if best is None else best.timestamp
            begin = row.last_offset + 1
            return await self.record_with_max_timestamp(partition, up_to, begin, above) or best
        return best

    async def _max_timestamp_from(
        self, partition: Readable, offset: int, up_to: int
    ) -> tuple[int, int]:
        """(timestamp, offset in its batch) by rows from `offset` on, each part of a new look-up."""
        best = (-1, -1)
        while offset < up_to:
            located = await self.rows(partition, offset)
            rows = some_from(located.rows, located.number)
            largest = await _in_thread(partial(largest_timestamp, rows, up_to))
            best = max(best, largest or best, key=lambda one: one[0])
            offset = row_at(rows, row_count(rows) - 1).last_offset + 1
        return best

    async def _max_timestamp(self, partition: Readable, up_to: int) -> tuple[int, int]:
        """(timestamp, offset in its batch), as indexes tell; -1 in an empty partition."""
        best = (-1, -1)
        epoch_ranges = partition.epoch_ranges  # the row may drop some during this look-up
        for number, ref in enumerate(epoch_ranges):
            candidates = await self._max_timestamps_of(
                partition, ref, _end_of(epoch_ranges, number), up_to
            )
            best = max(best, *candidates, key=lambda one: one[0])
        return best

    async def _max_timestamps_of(
        self, partition: Readable, ref: EpochEntry, end: int | None, up_to: int
    ) -> list[tuple[int, int]]:
        """Of one epoch range, (timestamp, offset), in checkpoints and beyond. Raises
        `Retryable`.
        """
        key = EpochKey(partition.topic_id, partition.partition, ref.leader_epoch)
        for _ in range(READS_MAX):
            known = await self._runner.run(self._checkpoints.of(ref.chain))
            candidates = [await self._max_timestamp_in(ref.chain, known, key)]
            if end is None:
                candidates.append(partition.max_timestamp_below(up_to))
            elif end > ref.start and not await self._is_checkpointed(ref.chain, known, key, end):
                epoch_range = await self._followers.epoch_range(ref.chain, key, end - 1)
                if epoch_range is not None:
                    candidates.append((epoch_range.max_timestamp, epoch_range.max_timestamp_offset))
            if known == await self._runner.run(self._checkpoints.of(ref.chain)):
                return candidates
        raise _keeps_changing(ref.chain)

    async def _max_timestamp_in(
        self, chain: int, known: Sequence[int], key: EpochKey
    ) -> tuple[int, int]:
        front = await self._front(chain, known[-1]) if known else None
        summary = None if front is None else front.epoch_ranges.get(key)
        if summary is None:
            return (-1, -1)
        return (summary.max_timestamp, summary.max_timestamp_offset)

    async def _is_checkpointed(
        self, chain: int, known: Sequence[int], key: EpochKey, end: int
    ) -> bool:
        """Whether the chain's last checkpoint covers an epoch range that is over."""
        front = await self._front(chain, known[-1]) if known else None
        summary = None if front is None else front.epoch_ranges.get(key)
        return summary is not None and summary.end >= end

    async def _front(self, chain: int, checkpoint: int) -> Checkpoint | None:
        """None if it was deleted: the segments it covers are trimmed."""
        cache = self._checkpoints.cache
        return await self._runner.run(front_unless_trimmed(cache, chain, checkpoint))

    async def _batch(self, located: FoundRows) -> memoryview:
        """The batch of the first of the `located` rows."""
        row = row_at(located.rows, located.number)
        end = row.position + row.length
        piece = BodySlice(row.seq, row.position, end, row.base_offset, row.last_offset + 1)
        part = self._parts.one_batch(located, row)
        return await self._batches(await self._cache.part(part), part, piece, located)

    async def _batches(
        self, data: memoryview, part: SegmentPart, piece: BodySlice, located: FoundRows
    ) -> memoryview:
        """Those of `piece`, in `data`, the bytes of `part`. Raises `Corrupt`."""
        batches = data[piece.start - part.start : piece.end - part.start]
        if not part.is_whole:
            try:
                check = check_batches(batches, piece, located.key.leader_epoch)
                await self._runner.run(sliced(check))
            except Corrupt as error:
                key = segment_key(part.epoch, part.seq)
                where = f"key={key} position={piece.start} partition={located.key.partition}"
                raise Corrupt(f"{error} {where}") from error
        return _small_copied(batches)


def _keeps_changing(chain: int) -> Retryable:
    return Retryable(
        f"the checkpoints of a chain change while they are searched: chain={chain} "
        f"searches={READS_MAX}; the store answers too slowly, try again"
    )


def _is_current(partition: Readable, ref: EpochEntry) -> bool:
    return ref.leader_epoch == partition.epoch_ranges[-1].leader_epoch


def _check_listed(partition: Readable, offset: int) -> None:
    """Raises `BelowTrimPoint` below the epoch ranges that the row lists: the table holds these
    offsets, or nothing does.
    """
    first = partition.epoch_ranges[0].start
    if offset < first:
        raise BelowTrimPoint(f"epoch ranges are no longer listed: offset={offset} first={first}")


async def _in_thread(look_up: Callable[[], tuple[int, int] | None]) -> tuple[int, int] | None:
    """A batch of 400 bytes may unpack to 64 MiB of records: too much for the event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, look_up)


def _end_of(epoch_ranges: Sequence[EpochEntry], number: int) -> int | None:
    """Where epoch range `number` ended; None for the current one."""
    following = epoch_ranges[number + 1 :]
    return following[0].start if following else None


def _chunk(plan: ReadPlan, bodies: dict[int, memoryview]) -> Chunk:
    buffers = [bodies[piece.seq][piece.start : piece.end] for piece in plan.slices]
    return Chunk(buffers, plan.byte_count, plan.end_offset)
