"""Segment bodies in memory: fetched once, bounded, and never wrong."""

import asyncio
import tracemalloc
from collections.abc import Sequence

import pytest

from logstore.errors import Corrupt, LogstoreError, Retryable
from logstore.formats.keys import segment_key
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.reading.brokers.cache import SegmentCache
from logstore.reading.brokers.segment_parts import SegmentPart
from logstore.runners.step_runner import StepRunner, outcome_of
from logstore.testing.virtual_loop import VirtualClock, run
from tests.golden.samples import EPOCH, data
from tests.logstore.protocol.built import BuiltChain

KEY = segment_key(EPOCH, 1)
BODY = bytes(data().body)
WHOLE = SegmentPart(EPOCH, 1)


class Slow(MemoryStore):
    """Counts GETs, takes a second for each, and fails as a test says."""

    def __init__(self, objects: MemoryObjects, errors: Sequence[LogstoreError] = ()) -> None:
        super().__init__(objects)
        self.get_count = 0
        self._errors = list(errors)

    async def get(self, key: str) -> bytes:
        self.get_count += 1
        await VirtualClock().sleep_s(1.0)
        if self._errors:
            raise self._errors.pop(0)
        return await super().get(key)


def stored(*errors: LogstoreError, damage: int | None = None) -> tuple[SegmentCache, Slow]:
    chain = BuiltChain()
    whole = bytearray(b"".join(data().parts))
    if damage is not None:
        whole[damage] ^= 1
    chain.objects.create(KEY, [whole])
    store = Slow(chain.objects, errors)
    usual = chain.runner
    runner = StepRunner(store, usual.registry, usual.clock, usual.rng, usual.draw_nonce)
    return SegmentCache(runner, bytes_max=1_000), store


async def test_however_many_ask_a_segment_is_fetched_once() -> None:
    cache, store = stored()
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(cache.part(WHOLE)) for _ in range(10)]
    assert {bytes(task.result()) for task in asked} == {BODY}
    assert bytes(await cache.part(WHOLE)) == BODY
    assert store.get_count == 1
    assert (cache.miss_count, cache.hit_count) == (1, 1)


async def test_a_failure_goes_to_all_that_wait_and_is_not_kept() -> None:
    cache, store = stored(Retryable("503"))
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(outcome_of(cache.part(WHOLE))) for _ in range(3)]
    assert all(isinstance(task.result(), Retryable) for task in asked)
    assert bytes(await cache.part(WHOLE)) == BODY
    assert store.get_count == 2


async def test_waiting_readers_go_on_when_the_one_that_fetches_gives_up() -> None:
    cache, store = stored()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(cache.part(WHOLE))
        await VirtualClock().sleep_s(0.5)
        second = tasks.create_task(cache.part(WHOLE))
        await VirtualClock().sleep_s(0.1)
        first.cancel()
    assert bytes(second.result()) == BODY
    assert store.get_count == 2


@pytest.mark.parametrize("at", range(24, 112, 4))
async def test_no_damaged_header_gives_a_wrong_body(at: int) -> None:
    cache, _ = stored(damage=at)
    try:
        assert bytes(await cache.part(WHOLE)) == BODY
    except LogstoreError as error:
        assert isinstance(error, Corrupt)


@pytest.mark.parametrize("at", [0, 7, 12, 30, len(BODY) - 1])
def test_a_damaged_body_is_not_served(at: int) -> None:
    """Not even where a batch's own checksum does not reach: its offset, its leader epoch."""
    cache, _ = stored(damage=len(data().front) + at)

    with pytest.raises(Corrupt, match="checksum"):
        run(cache.part(WHOLE))


async def test_memory_is_bounded_and_the_oldest_go_first() -> None:
    cache, _ = stored()
    for seq in range(10):
        cache.keep(1, seq, memoryview(bytes(100)))
    assert [cache.peek(1, seq) is not None for seq in range(10)] == [False] * 8 + [True] * 2
    for _ in range(20):
        cache.keep(1, 9, memoryview(bytes(100)))
    assert cache.peek(1, 8) is not None
    cache.keep(2, 0, memoryview(bytes(5_000)))
    assert cache.peek(2, 0) is not None


def test_many_small_bodies_take_no_more_memory_than_few_large_ones() -> None:
    """A broker on a directory that writes one small record 100 times a second, for hours."""
    bytes_max = 1_000_000
    cache = SegmentCache(BuiltChain().runner, bytes_max=bytes_max)
    arena = memoryview(bytes(100))
    tracemalloc.start()
    try:
        for seq in range(20_000):
            cache.keep(1_000_000, 1_000_000 + seq, arena[:100])
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.peek(1_000_000, 1_019_999) is not None
    assert used_bytes < bytes_max
