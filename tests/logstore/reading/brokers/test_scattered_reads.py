"""A partition with a little in each of many large segments: one read of it stays small."""

import weakref
from typing import Any

from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.reading.brokers.cache import SegmentCache
from logstore.reading.brokers.read import LOADS_AT_ONCE, SEGMENTS_MAX, Reader
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.written import WrittenLog, committed

SEGMENTS = SEGMENTS_MAX + 8
OTHERS_BYTES = 160_000


class Body(bytearray):
    """An object that was fetched; it can be seen whether it is still in memory."""


class Watched(MemoryStore):
    """Counts objects that were fetched, and how many of them are in memory at once."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(objects)
        self.get_count = self.live_count = self.live_count_max = 0

    async def get(self, key: str) -> Any:
        body = Body(await super().get(key))
        weakref.finalize(body, self._gone)
        self.get_count += 1
        self.live_count += 1
        self.live_count_max = max(self.live_count_max, self.live_count)
        return memoryview(body).toreadonly()

    def _gone(self) -> None:
        self.live_count -= 1


def _others_batch() -> bytes:
    return encode_batch([Record(0, EPOCH_MS, None, bytes(OTHERS_BYTES))])


async def test_a_read_of_a_scattered_partition_holds_a_few_of_its_segments() -> None:
    written, others_batch = WrittenLog(checkpoint_segments=1000), memoryview(_others_batch())
    async with written.life() as log:
        orders = (await log.create_topic("orders", 1, {})).leaders[0]
        others = (await log.create_topic("others", 1, {})).leaders[0]
        for number in range(SEGMENTS):
            appended = written.append(orders, [EPOCH_MS + number])
            others.append(others_batch, check_batch(others_batch, 0, len(others_batch)))
            await committed(log, appended.seq)
        store, usual = Watched(written.objects), written.runner
        runner = StepRunner(store, usual.registry, usual.clock, usual.rng, usual.draw_nonce)
        cache = SegmentCache(runner, bytes_max=1)
        reader = Reader(runner, cache, log._checkpoints, log._followers)
        end = orders.high_watermark

        chunk = await reader.read(orders, 0, end, 1 << 20)
        rest = await reader.read(orders, chunk.end_offset, end, 1 << 20)

        assert store.live_count_max <= LOADS_AT_ONCE + 1  # one is in the cache
        assert (chunk.end_offset, rest.end_offset) == (SEGMENTS_MAX, SEGMENTS)
        assert store.get_count <= SEGMENTS
        for number, buffer in enumerate([*chunk.buffers, *rest.buffers]):
            assert int.from_bytes(buffer[:8]) == number
