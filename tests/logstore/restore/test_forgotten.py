"""Restore where the owner of a chain has forgotten leaderships that lie below log start."""

import pytest

from logstore.epoch.log import Log
from logstore.errors import Corrupt
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.deletion.records_deletion import Raise, raise_log_start
from logstore.registry.memory import MemoryRows
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.epoch.test_forgetting import forget, hand_over_to_itself, row_of
from tests.logstore.moved import MovedLog
from tests.logstore.restore.test_restore import cluster_id, copy_of, put_back
from tests.logstore.restore.test_tables import log_start_of, rebuild


async def write_three(written: MovedLog, log: Log) -> None:
    await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS] * 3)


async def delete_below(log: Log, offset: int) -> None:
    leader = log.topics["orders"].leaders[0]
    raised = Raise(leader.topic_id, 0, log.epoch, leader.leader_epoch, offset)
    await log.runner.run(raise_log_start(raised))
    leader.follow_row(await row_of(log, leader.topic_id))


@pytest.mark.parametrize("registry", ["whole", "older", "lost"])
@pytest.mark.parametrize("clean", [True, False])
async def test_a_hole_that_a_chain_forgot_below_log_start_is_no_loss(
    registry: str, clean: bool
) -> None:
    """`older`: a copy from before log start was raised. The chain says what was deleted, in its
    last checkpoint or, where it died before there was one, in its tail.
    """

    written = MovedLog(checkpoint_segments=3 if clean else 100)
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        await write_three(written, log)
    async with written.life(clean=clean) as log:
        for _ in range(2):
            await write_three(written, log)
            await hand_over_to_itself(log)
        await write_three(written, log)
        before: MemoryRows = copy_of(written.rows)
        await delete_below(log, 10)
        assert await forget(log) == 2
        topic_id = log.topics["orders"].leaders[0].topic_id
    cluster = cluster_id(written)
    if registry != "whole":
        put_back(written, before if registry == "older" else MemoryRows())
    await rebuild(written, cluster)
    # Without the row, log start is the end of the hole: all that the chains tell.
    assert await log_start_of(written, TopicPartition(topic_id, 0)) == (
        10 if registry == "whole" else 9
    )
    async with written.life() as log:
        assert log.topics["orders"].leaders[0].log_end == 12


async def test_a_hole_above_what_chains_forgot_is_a_loss_until_a_person_says_otherwise() -> None:
    written = MovedLog()
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        await write_three(written, log)
    async with written.life() as log:
        await write_three(written, log)
        await hand_over_to_itself(log)
        await delete_below(log, 6)
        assert await forget(log) == 1  # [3, 6)
        topic_id = log.topics["orders"].leaders[0].topic_id
    async with written.life() as log:
        lost = log.epoch
        await write_three(written, log)
        end = log.writer.committed_end
    async with written.life() as log:
        await write_three(written, log)
    cluster = cluster_id(written)
    for seq in range(1, end + 3):
        written.objects.delete(segment_key(lost, seq))
        written.objects.delete(checkpoint_key(lost, seq))
    put_back(written, MemoryRows())
    with pytest.raises(Corrupt, match=r"epoch ranges do not meet: .* --holes-deleted"):
        await rebuild(written, cluster)
    await rebuild(written, cluster, holes_deleted=True)
    assert await log_start_of(written, TopicPartition(topic_id, 0)) == 9
