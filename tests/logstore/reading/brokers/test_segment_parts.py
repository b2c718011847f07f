"""A broker's reads of segments fetch the bytes of their topic, once, and check each batch."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from logstore.epoch.leader import Leader
from logstore.epoch.log import Log
from logstore.errors import Corrupt
from logstore.formats.chain_state import SegmentSpan
from logstore.formats.index_rows import ROW
from logstore.formats.keys import segment_key
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.reading.brokers.segment_parts import (
    PARTS_MAX,
    WHOLE_BYTES_MAX,
    SegmentPart,
    topic_parts,
)
from logstore.reading.planning.batch_places import GAP_BYTES_MAX
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.runners.step_runner import StepRunner
from logstore.slices import finish
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.logstore.written import WrittenLog, committed

MiB = 1 << 20
SEGMENTS = 12
OTHERS_BYTES = 400_000
PARTITIONS = 2


# What is decided


def rows(*places: tuple[int, int, int]) -> bytes:
    """Of one partition: (seq, position, length)."""
    return b"".join(
        ROW.pack(seq, at, length, 1, 0, 0, number, number, 0, 0, 0)
        for number, (seq, at, length) in enumerate(places)
    )


def parts(*pages: bytes, size_bytes: int = 8 * MiB, whole: int = WHOLE_BYTES_MAX) -> Any:
    """Of a topic with these rows, in a window of two segments."""
    front: Any = Front([SegmentSpan(100, size_bytes)] * 2)
    return finish(topic_parts(front, pages, whole))


class Front:
    epoch, from_seq, seq = 7, 5, 7

    def __init__(self, spans: Sequence[SegmentSpan]) -> None:
        self.spans = spans


def test_all_partitions_of_a_topic_that_lie_together_are_one_part() -> None:
    found = parts(rows((5, 1000, 10), (5, 1010, 10), (6, 0, 10)), rows((5, 1020, 500)))
    whole_topic = SegmentPart(7, 5, 1000, 1520, 100)
    assert found.part(5, 1000, 1010) == found.part(5, 1020, 1520) == whole_topic
    assert found.size_of(whole_topic) == 520
    assert found.part(6, 0, 10) == SegmentPart(7, 6, 0, 10, 100)


def test_a_large_gap_parts_them_and_a_small_one_does_not() -> None:
    far = 20 + GAP_BYTES_MAX + 1
    found = parts(rows((5, 0, 10), (5, 10 + GAP_BYTES_MAX, 10), (6, 10, 10), (6, far, 10)))
    assert found.part(5, 0, 10) == SegmentPart(7, 5, 0, 20 + GAP_BYTES_MAX, 100)
    assert found.part(6, 10, 20) == SegmentPart(7, 6, 10, 20, 100)
    assert found.part(6, far, far + 10) == SegmentPart(7, 6, far, far + 10, 100)


@pytest.mark.parametrize(
    ("places", "size_bytes"),
    [
        ([(5, 0, 10)], WHOLE_BYTES_MAX),
        ([(5, 0, 7 * MiB)], 8 * MiB),
        ([(5, number * 2 * GAP_BYTES_MAX, 10) for number in range(PARTS_MAX + 1)], 8 * MiB),
    ],
    ids=["small", "dense", "scattered"],
)
def test_segments_that_are_fetched_whole(
    places: list[tuple[int, int, int]], size_bytes: int
) -> None:
    found = parts(rows(*places), size_bytes=size_bytes)
    assert found.part(5, 0, 10) == SegmentPart(7, 5)
    assert found.size_of(SegmentPart(7, 5)) == size_bytes


def test_what_no_row_names_is_in_no_part() -> None:
    found = parts(rows((5, 0, 10)))
    assert found.part(5, 0, 11).is_whole
    assert found.part(6, 0, 10).is_whole
    assert found.part(9, 0, 10).is_whole
    assert found.size_of(SegmentPart(7, 9)) is None


# What is fetched


class Counted(MemoryStore):
    """Counts bytes by what was asked of chains; may damage a byte of what it answers."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(objects)
        self.wholes: Counter[str] = Counter()
        self.ranges: Counter[tuple[str, int, int]] = Counter()
        self.damaged_at: int | None = None
        self.cut_bytes = 0

    async def get(self, key: str) -> bytes:
        if key.startswith("chains/"):
            self.wholes[key] += 1
        return await super().get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        data = bytearray(await super().get_range(key, start, length))
        if key.startswith("chains/"):
            self.ranges[key, start, length] += 1
            if self.damaged_at is not None:
                data[self.damaged_at] ^= 1
            data = data[: len(data) - self.cut_bytes]
        return bytes(data)


class Restarted:
    """A broker that has nothing in memory; each segment holds `OTHERS_BYTES` of another topic."""

    def __init__(self, log: Log, store: Counted) -> None:
        self.log = log
        self.store = store
        self.leaders = log.topics["orders"].leaders

    async def read(self, partition: int = 0, consumer: str | None = "a") -> int:
        """All batches of a partition; how many."""
        leader, offset = self.leaders[partition], 0
        while offset < leader.high_watermark:
            chunk = await self.log.read(
                leader, offset, leader.high_watermark, 100, consumer=consumer
            )
            assert int.from_bytes(chunk.buffers[0][:8]) == offset
            offset = chunk.end_offset
        return offset

    @property
    def ranged_bytes(self) -> int:
        return sum(length * count for (_, _, length), count in self.store.ranges.items())


@asynccontextmanager
async def restarted(
    *, ahead_bytes: int = 8 * MiB, cache_bytes: int = 8 * MiB
) -> AsyncIterator[Restarted]:
    written, others = WrittenLog(checkpoint_segments=4), memoryview(_others())
    async with written.life() as log:
        leaders = (await log.create_topic("orders", PARTITIONS, {})).leaders
        noise = (await log.create_topic("others", 1, {})).leaders[0]
        for number in range(SEGMENTS):
            await _write_segment(written, log, [*leaders.values()], noise, others, number)
    written._settings = replace(
        written._settings, cache_bytes_max=cache_bytes, read_ahead_bytes_max=ahead_bytes
    )
    store, usual = Counted(written.objects), written.runner
    runner = StepRunner(store, usual.registry, usual.clock, usual.rng, usual.draw_nonce)
    async with written.life(runner=runner) as log:
        await VirtualClock().sleep_s(10.0)
        store.wholes.clear()
        store.ranges.clear()
        yield Restarted(log, store)


def _others() -> bytes:
    return encode_batch([Record(0, EPOCH_MS, None, bytes(OTHERS_BYTES))])


async def _write_segment(
    written: WrittenLog,
    log: Log,
    leaders: Sequence[Leader],
    noise: Leader,
    others: memoryview,
    number: int,
) -> None:
    appended = [written.append(one, [EPOCH_MS + number]) for one in leaders]
    noise.append(others, check_batch(others, 0, len(others)))
    for one in appended:
        await committed(log, one.seq)


async def test_a_consumer_of_a_small_topic_fetches_its_bytes_alone_and_once() -> None:
    async with restarted() as after:
        for partition in range(PARTITIONS):
            assert await after.read(partition) == SEGMENTS
        assert not after.store.wholes
        assert set(after.store.ranges.values()) == {1}
        assert len(after.store.ranges) == SEGMENTS  # both partitions by one request
        assert after.ranged_bytes < SEGMENTS * 1_000


async def test_what_is_read_ahead_are_the_same_parts() -> None:
    async with restarted(cache_bytes=1) as after:
        assert await after.read() == SEGMENTS
        assert set(after.store.ranges.values()) == {1}
        assert after.log._segments.ahead.byte_count < 2_000
        assert not after.log.cache._pinned_bodies.keys() - after.log.cache._pinned


@pytest.mark.parametrize("topic", ["orders", "others"])
async def test_a_look_up_by_time_fetches_the_batch_it_found(topic: str) -> None:
    async with restarted() as after:
        segments = after.log._segments
        batch = await segments._batch(await segments.rows(after.log.topics[topic].leaders[0], 7))
        assert int.from_bytes(batch[:8]) == 7
        assert not after.store.wholes
        assert after.ranged_bytes < (100 if topic == "orders" else OTHERS_BYTES + 100)


async def test_a_whole_body_in_memory_serves_its_parts() -> None:
    async with restarted(ahead_bytes=0) as after:
        located = await after.log._segments.rows(after.leaders[0], 0)
        seq = int.from_bytes(located.rows[:8])
        await after.log.cache.part(SegmentPart(located.chain, seq))
        leader = after.leaders[0]
        chunk = await after.log.read(leader, 0, 1, 100)
        assert chunk.end_offset == 1
        assert after.store.wholes == {segment_key(located.chain, seq): 1}
        assert not after.store.ranges


@pytest.mark.parametrize("at", [0, 7, 8, 11, 12, 15, 16, 17, 21, 60, 65])
async def test_a_damaged_part_is_not_served(at: int) -> None:
    """Not even where a batch's own checksum does not reach: its offset, its leader epoch."""

    async with restarted() as after:
        after.store.damaged_at = at
        with pytest.raises(Corrupt, match="key=chains/"):
            await after.read(consumer=None)


async def test_a_part_that_is_cut_short_is_not_served() -> None:
    async with restarted() as after:
        after.store.cut_bytes = 1
        with pytest.raises(Corrupt, match="cut short"):
            await after.read(consumer=None)
