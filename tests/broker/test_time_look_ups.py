"""A look-up by time that finds records below log start ends."""

import pytest

from broker.handlers.list_offsets import READS_MAX, find_by_time, find_latest
from logstore.epoch.leader import Leader
from logstore.errors import Retryable
from logstore.reading.brokers.read import FoundRecord
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.written import WrittenLog


class Index:
    """Answers these offsets, one after the other; the last one again and again."""

    def __init__(self, *offsets: int) -> None:
        self.offsets = list(offsets)
        self.asked = 0

    async def offset_for_time(self, partition: Leader, timestamp: int, up_to: int) -> FoundRecord:
        self.asked += 1
        offset = self.offsets.pop(0) if len(self.offsets) > 1 else self.offsets[0]
        return FoundRecord(offset, timestamp, 0)

    async def offset_of_max_timestamp(self, partition: Leader, up_to: int) -> FoundRecord:
        return await self.offset_for_time(partition, EPOCH_MS, up_to)


async def a_leader(written: WrittenLog, log_start: int) -> Leader:
    async with written.life() as log:
        leader: Leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS] * 9)
        leader.raise_log_start(log_start)
    return leader


async def test_an_index_that_stays_below_log_start_is_asked_a_few_times() -> None:
    leader, index = await a_leader(WrittenLog(), 5), Index(3)
    with pytest.raises(Retryable, match=r"below log start: .* log_start=5"):
        await find_by_time(index, leader, EPOCH_MS, 9)
    assert index.asked == READS_MAX


async def test_a_log_start_that_goes_up_during_a_look_is_looked_above() -> None:
    leader, index = await a_leader(WrittenLog(), 5), Index(3, 4, 6)
    found = await find_by_time(index, leader, EPOCH_MS, 9)
    assert found is not None and (found.offset, index.asked) == (6, 3)


async def test_a_log_start_that_goes_up_hides_no_other_record_with_the_largest_timestamp() -> None:
    leader, index = await a_leader(WrittenLog(), 5), Index(3, 6)
    found = await find_latest(index, leader, 9)
    assert found is not None and (found.offset, index.asked) == (6, 2)
