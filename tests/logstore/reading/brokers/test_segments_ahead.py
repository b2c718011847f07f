"""Segments are fetched ahead of a consumer that reads in order: once each, bounded, in silence."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from logstore.epoch.leader import Leader
from logstore.epoch.log import Log, LogSettings
from logstore.errors import LogstoreError, NotFound, Throttled
from logstore.formats.index_rows import row_at
from logstore.formats.keys import segment_key
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.protocol.chain.flush import FlushSettings
from logstore.reading.brokers.segments_ahead import IDLE_S
from logstore.runners.step_runner import StepRunner, outcome_of
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.logstore.written import WrittenLog

SEGMENTS = 40
BATCH_BYTES = 100
"""Room for one batch, which is one segment here."""
GET_S = 1.0


class SlowSegments(MemoryStore):
    """Takes a second for each GET of a segment, counts them, and may fail."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(objects)
        self.gets: Counter[str] = Counter()
        self.under_way = 0
        self.under_way_max = 0
        self.errors: dict[str, LogstoreError] = {}

    async def get(self, key: str) -> bytes:
        if not key.startswith("chains/"):
            return await super().get(key)
        self.gets[key] += 1
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            await VirtualClock().sleep_s(GET_S)
        finally:
            self.under_way -= 1
        if key in self.errors:
            raise self.errors[key]
        return await super().get(key)


class Restarted:
    """A broker that has nothing of its log in memory, and a store that is slow."""

    def __init__(self, log: Log, store: SlowSegments, partitions: Sequence[Leader]) -> None:
        self.log = log
        self.store = store
        self.partitions = partitions
        self.clock = VirtualClock()

    async def read(
        self, count: int, *, start: int = 0, consumer: str = "a", partition: int = 0
    ) -> float:
        """Read so many batches, one at a time; seconds."""
        began_s = self.clock.monotonic_s()
        for offset in range(start, start + count):
            assert await self.read_one(offset, consumer, partition) is None
        return self.clock.monotonic_s() - began_s

    async def read_one(
        self, offset: int, consumer: str = "a", partition: int = 0
    ) -> LogstoreError | None:
        leader = self.partitions[partition]
        end = leader.high_watermark
        chunk = self.log.read_in_memory(leader, offset, end, BATCH_BYTES, consumer)
        if chunk is None:
            read = self.log.read(leader, offset, end, BATCH_BYTES, consumer=consumer)
            outcome = await outcome_of(read)
            if isinstance(outcome, LogstoreError):
                return outcome
            chunk = outcome
        assert int.from_bytes(chunk.buffers[0][:8]) == offset
        assert chunk.end_offset == offset + 1
        return None

    async def settle(self) -> None:
        await self.clock.sleep_s(5 * GET_S)

    async def key(self, offset: int) -> str:
        """Of the segment with this offset."""
        found = await self.log._segments.rows(self.partitions[0], offset)
        return segment_key(found.chain, row_at(found.rows, found.number).seq)


@asynccontextmanager
async def restarted(
    *, ahead_bytes: int = 1 << 20, cache_bytes: int = 1 << 20
) -> AsyncIterator[Restarted]:
    written = WrittenLog(checkpoint_segments=8)
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        for number in range(SEGMENTS):
            await written.write(log, leader, [EPOCH_MS + number])
    written._settings = LogSettings(
        flush=FlushSettings(interval_s=0.01),
        cache_bytes_max=cache_bytes,
        read_ahead_bytes_max=ahead_bytes,
    )
    store = SlowSegments(written.objects)
    usual = written.runner
    runner = StepRunner(store, usual.registry, usual.clock, usual.rng, usual.draw_nonce)
    async with written.life(runner=runner) as log:
        await VirtualClock().sleep_s(10.0)
        store.gets.clear()
        store.under_way_max = 0
        yield Restarted(log, store, [log.topics["orders"].leaders[0]])


async def test_a_consumer_that_catches_up_waits_for_few_segments_and_each_is_fetched_once() -> None:
    async with restarted() as after:
        seconds = await after.read(SEGMENTS)
        assert seconds < SEGMENTS * GET_S / 4
        assert set(after.store.gets.values()) == {1}
        assert len(after.store.gets) == SEGMENTS


async def test_without_bytes_for_it_nothing_is_fetched_ahead() -> None:
    async with restarted(ahead_bytes=0) as after:
        assert await after.read(10) == pytest.approx(10 * GET_S)
        assert len(after.store.gets) == 10


async def test_what_is_ahead_stays_in_a_cache_that_is_too_small_for_it() -> None:
    async with restarted(cache_bytes=1) as after:
        await after.read(SEGMENTS)
        assert max(after.store.gets.values()) == 1
        cache = after.log.cache
        assert len(cache._pinned_bodies) <= 1  # of the last segment, at the end
        assert len(cache._bodies) == 1


async def test_four_consumers_of_the_same_range_fetch_each_segment_once() -> None:
    async with restarted(cache_bytes=1) as after:
        async with asyncio.TaskGroup() as tasks:
            for name in "abcd":
                tasks.create_task(after.read(SEGMENTS, consumer=name))
        assert len(after.store.gets) == SEGMENTS
        assert max(after.store.gets.values()) == 1


async def test_consumers_at_many_places_stay_within_the_bytes() -> None:
    async with restarted() as after:
        await after.read(1)
        size = after.log.cache.byte_count  # of a segment
    async with restarted(ahead_bytes=8 * size) as after:
        async with asyncio.TaskGroup() as tasks:
            for number in range(20):
                consumer = f"consumer {number}"
                tasks.create_task(after.read(20, start=number, consumer=consumer))
        assert after.log._segments.ahead.byte_count <= 8 * size
        assert after.store.under_way_max <= 8 + 20  # and one of each consumer itself


async def test_a_consumer_that_takes_no_more_is_read_ahead_of_no_further() -> None:
    async with restarted() as after:
        await after.read(2)
        await after.settle()
        assert len(after.store.gets) <= 4  # what it read, and two objects
        count = len(after.store.gets)
        await after.settle()
        assert len(after.store.gets) == count


async def test_a_seek_gives_up_what_is_ahead_and_reads_nothing_ahead() -> None:
    async with restarted() as after:
        await after.read(2)
        assert after.log._segments.ahead.byte_count > 0
        await after.read(1, start=35)
        await after.settle()
        assert after.log._segments.ahead.byte_count == 0
        assert not after.log.cache._pinned
        assert await after.key(36) not in after.store.gets


async def test_a_consumer_that_is_silent_gives_up_what_is_ahead_at_the_next_ones_fetch() -> None:
    async with restarted() as after:
        await after.read(3)
        await after.clock.sleep_s(60.0)
        assert after.log.read_ahead_bytes > 0
        await after.read(1, start=30, consumer="b")
        assert after.log.read_ahead_bytes == 0


async def test_of_a_consumer_that_is_gone_nothing_stays_ahead_where_no_other_comes() -> None:
    async with restarted() as after:
        await after.read(3)
        await after.clock.sleep_s(IDLE_S - 1)
        await after.log.forget_ended()
        assert after.log.read_ahead_bytes > 0, "it may go on"
        await after.clock.sleep_s(2.0)
        await after.log.forget_ended()
        assert after.log.read_ahead_bytes == 0
        assert not after.log.cache._pinned


@pytest.mark.parametrize("error", [Throttled("503"), NotFound("404")])
async def test_a_failure_ahead_is_met_by_the_fetch_that_comes_there(error: LogstoreError) -> None:
    """And by no storm of requests before: one ahead, then those of the fetches themselves."""

    async with restarted() as after:
        for offset in range(20, SEGMENTS):
            after.store.errors[await after.key(offset)] = error
        await after.read(20)
        await after.settle()
        failed = [await after.key(offset) for offset in range(20, SEGMENTS)]
        begun = sum(after.store.gets[key] for key in failed)
        await after.clock.sleep_s(20.0)
        assert sum(after.store.gets[key] for key in failed) == begun
        after.store.gets.clear()
        met = await after.read_one(20)
        assert met is not None
        assert sum(after.store.gets.values()) <= 3
        await after.settle()
        after.store.errors.clear()
        await after.read(20, start=20)
        assert max(after.store.gets[key] for key in failed[3:]) == 1


async def test_a_broker_that_stops_reads_nothing_ahead() -> None:
    async with restarted() as after:
        await after.read(10)
        log = after.log
    assert log._segments.ahead.byte_count == 0
    assert not log.cache._pinned
    log._segments.ahead.note("a", after.partitions[0], 10, 11, SEGMENTS)
    assert not log._segments.ahead._readers
