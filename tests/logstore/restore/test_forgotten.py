"""Restore where the owner of a chain has forgotten leaderships that lie below log start."""

import pytest

from logstore.errors import Corrupt
from logstore.formats.pieces import TopicPartition
from logstore.protocol.records_deletion import Raise, raise_log_start
from logstore.registry.memory import MemoryRows
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.epoch.test_forgetting import forget, hand_over_to_itself, row_of
from tests.logstore.moved import MovedLog
from tests.logstore.restore.test_restore import cluster_id, copy_of, put_back
from tests.logstore.restore.test_tables import log_start_of, rebuild


@pytest.mark.parametrize("is_old", [False, True])
def test_a_hole_that_a_chain_forgot_below_log_start_is_no_loss(is_old: bool) -> None:
    """`is_old`: the registry is a copy from before log start was raised, which proves nothing: a
    person has to say it.
    """

    async def scenario() -> None:
        written = MovedLog()
        async with written.life() as log:
            await log.create_topic("orders", 1, {})
            await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS] * 3)
        async with written.life() as log:
            for _ in range(2):
                await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS] * 3)
                await hand_over_to_itself(log)
            leader = log.topics["orders"].leaders[0]
            await written.write(log, leader, [EPOCH_MS] * 3)
            before: MemoryRows = copy_of(written.rows)
            raised = Raise(leader.topic_id, 0, log.epoch, leader.leader_epoch, 10)
            await log.performer.run(raise_log_start(raised))
            leader.follow_row(await row_of(log, leader.topic_id))
            assert await forget(log) == 2
        cluster = cluster_id(written)
        if is_old:
            put_back(written, before)
            with pytest.raises(Corrupt, match=r"stretches do not meet: .* --holes-deleted"):
                await rebuild(written, cluster)
        await rebuild(written, cluster, holes_deleted=is_old)
        # Without the row, log start is the end of the hole: all that the chains tell.
        assert await log_start_of(written, TopicPartition(leader.topic_id, 0)) == (
            9 if is_old else 10
        )
        async with written.life() as log:
            assert log.topics["orders"].leaders[0].log_end == 12

    run(scenario())
