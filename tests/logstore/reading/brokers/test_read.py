"""Look-ups by time in segments, while the list of a chain's checkpoints changes."""

from collections.abc import Sequence
from itertools import count

import pytest

from logstore.errors import Retryable
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.written import WrittenLog

CHANGES = 50


async def test_a_look_up_ends_while_the_list_of_checkpoints_changes_with_each_look() -> None:
    """The store is slow, and the broker makes a checkpoint during each look-up."""

    written = WrittenLog(checkpoint_segments=2)
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        for number in range(12):
            await written.write(log, leader, [EPOCH_MS + number])
        looks = count()

        def changing() -> Sequence[int]:
            known = log.writer.checkpoints.durable
            look = next(looks)
            return known[:-1] if look < CHANGES and look % 2 else known

        log._checkpoints.live[log.epoch] = changing
        end = leader.high_watermark
        with pytest.raises(Retryable, match="checkpoints of a chain change"):
            await log.offset_for_time(leader, EPOCH_MS + 99, end)
        with pytest.raises(Retryable, match="checkpoints of a chain change"):
            await log.offset_of_max_timestamp(leader, end)
        while next(looks) < CHANGES:
            pass
        assert await log.offset_for_time(leader, EPOCH_MS + 99, end) is None
