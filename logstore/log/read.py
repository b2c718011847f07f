"""Read batches of one partition: from memory at the tail, else by index and segment cache.

A chunk is whole batches in offset order, starting with the one that holds the wanted offset; the
client drops what it did not ask for. The first batch comes whole however large it is.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from logstore.errors import Corrupt, Refused
from logstore.index.lookup import FoundRows
from logstore.index.partition import ChainCheckpoints, locate_offset
from logstore.index.rows import ROW, Rows, row_at, row_count
from logstore.log.cache import SegmentCache
from logstore.log.leader import Leader
from logstore.perform import Performer

LOADS_AT_ONCE = 4


class Chunk(NamedTuple):
    """Batches as buffers to be sent one after the other; `end_offset` is where to read on."""

    buffers: Sequence[memoryview]
    byte_count: int
    end_offset: int


class _Slice(NamedTuple):
    """Adjacent batches in one segment's body."""

    seq: int
    start: int
    end: int


class _Plan(NamedTuple):
    slices: list[_Slice]
    byte_count: int
    end_offset: int


def read_in_memory(
    leader: Leader,
    cache: SegmentCache,
    chain: int,
    offset: int,
    up_to: int,
    bytes_max: int,
) -> Chunk | None:
    """Batches from `offset` to below `up_to`; None: not all in memory, use `Reader.read`."""
    if offset >= up_to:
        return Chunk((), 0, offset)
    if offset < leader.first_offset_in_memory:
        return None
    plan = _plan(*leader.rows_for_offset(offset), up_to, bytes_max)
    bodies = {}
    for piece in plan.slices:
        body = cache.peek(chain, piece.seq)
        if body is None:
            return None
        bodies[piece.seq] = body
    return _chunk(plan, bodies)


class Reader:
    """Reads what may not be in memory; every wait is for the store or the registry."""

    def __init__(
        self, performer: Performer, cache: SegmentCache, checkpoints: ChainCheckpoints
    ) -> None:
        self._performer = performer
        self._cache = cache
        self._checkpoints = checkpoints

    async def read(
        self, leader: Leader, chain: int, offset: int, up_to: int, bytes_max: int
    ) -> Chunk:
        """As `read_in_memory`, for the whole log. Raises as the store does."""
        if offset >= up_to:
            return Chunk((), 0, offset)
        found = await self.rows(leader, chain, offset)
        plan = _plan(found.rows, found.number, up_to, bytes_max)
        seqs = [piece.seq for piece in plan.slices]
        bodies: dict[int, memoryview] = {}
        for first in range(0, len(seqs), LOADS_AT_ONCE):
            wanted = seqs[first : first + LOADS_AT_ONCE]
            loaded = await asyncio.gather(*(self._cache.body(found.chain, seq) for seq in wanted))
            bodies.update(zip(wanted, loaded, strict=True))
        return _chunk(plan, bodies)

    async def rows(self, leader: Leader, chain: int, offset: int) -> FoundRows:
        """Index rows from the batch that holds `offset` on."""
        if offset >= leader.first_offset_in_memory:
            rows, number = leader.rows_for_offset(offset)
            return FoundRows(leader.key, chain, rows, number)
        found = await self._performer.run(
            locate_offset(
                self._checkpoints,
                leader.topic_id,
                leader.partition,
                leader.stretches,
                offset,
            )
        )
        if found is None:
            if offset >= leader.first_offset_in_memory:
                return await self.rows(leader, chain, offset)
            raise Corrupt(
                f"no index row for an offset: topic={leader.topic_id.hex()} "
                f"partition={leader.partition} offset={offset}"
            )
        return found

    async def batch(self, found: FoundRows) -> memoryview:
        """The batch of the first of `found`'s rows."""
        row = row_at(found.rows, found.number)
        body = await self._cache.body(found.chain, row.seq)
        return body[row.position : row.position + row.length]


def _plan(rows: Rows, number: int, up_to: int, bytes_max: int) -> _Plan:
    """Which bytes to send: rows from `number` on, below `up_to`, at least one, then `bytes_max`."""
    slices: list[_Slice] = []
    total, end_offset, unpack = 0, -1, ROW.unpack_from
    seq, start, end = -1, 0, 0
    for at in range(number * ROW.size, row_count(rows) * ROW.size, ROW.size):
        row_seq, position, length, _, place, _, base, last, _, _, _ = unpack(rows, at)
        if base >= up_to or (total and total + length > bytes_max):
            break
        if place:
            raise Refused("adopted batches are of a newer version of logstore; upgrade")
        if row_seq == seq and position == end:
            end += length
        else:
            if seq >= 0:
                slices.append(_Slice(seq, start, end))
            seq, start, end = row_seq, position, position + length
        total += length
        end_offset = last + 1
    slices.append(_Slice(seq, start, end))
    return _Plan(slices, total, end_offset)


def _chunk(plan: _Plan, bodies: dict[int, memoryview]) -> Chunk:
    buffers = [bodies[piece.seq][piece.start : piece.end] for piece in plan.slices]
    return Chunk(buffers, plan.byte_count, plan.end_offset)
