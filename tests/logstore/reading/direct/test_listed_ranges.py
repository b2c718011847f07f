"""Offsets below the epoch ranges that a partition's row lists: the table has them."""

from dataclasses import replace

import pytest

from logstore.protocol.partitions.lookup import BelowTrimPoint, NotListed
from logstore.reading.direct.reader import PartitionView
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.written import WrittenLog


async def test_offsets_that_a_row_lists_no_more_are_to_be_looked_for_in_the_table() -> None:
    """By offset and by time alike: nothing is damaged."""

    written = WrittenLog()
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS] * 3)
        reader = await written.reader()
        ((key, view),) = reader.partitions(reader.topics()).items()
        (listed,) = view.row.epoch_ranges
        row = replace(view.row, epoch_ranges=(listed._replace(start=2),))

        for start in (0, 1):
            with pytest.raises(NotListed):
                reader.segment_ranges(key, row, start, view.end)
            with pytest.raises(NotListed):
                reader.offset_for_time(key, PartitionView(row, view.end), EPOCH_MS, start)
        assert issubclass(NotListed, BelowTrimPoint)
        assert reader.segment_ranges(key, row, 2, view.end)
