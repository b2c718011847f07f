"""`logstore fsck` where a checkpoint at a trim point names a topic that its chain forgot."""

import pytest

from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.protocol.deletion.trimming import Trimmer
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.written import WrittenLog
from tests.simulation.tiers.fsck import check_stored, shown

CHECKPOINT_SEGMENTS = 3


@pytest.mark.slow
async def test_a_trim_point_at_a_checkpoint_with_a_forgotten_topic_is_judged_by_its_record() -> (
    None
):
    written = WrittenLog(checkpoint_segments=CHECKPOINT_SEGMENTS)
    async with written.life() as log:
        former = await log.create_topic("orders", 1, {})
        for _ in range(2 * CHECKPOINT_SEGMENTS):
            await written.write(log, former.leaders[0], [EPOCH_MS])
        await log.delete_topic("orders")
        cluster_id = (await written.reader()).cluster_id
        await written.runner.run(Trimmer(cluster_id).steps())
        now = await log.create_topic("orders", 1, {})
        assert await log.forget_ended() == 1
        for _ in range(2 * CHECKPOINT_SEGMENTS):
            await written.write(log, now.leaders[0], [EPOCH_MS])
        row = ChainRow.of(await written.rows.get(CHAIN, chain_sk(log.epoch)) or {})
        assert 0 < row.trim < row.checkpoint

        for _ in range(2):
            problems = check_stored(written.objects, written.rows)
            assert [shown(problem) for problem in problems] == []
            await written.runner.clock.sleep_s(3600)
            await written.runner.run(Trimmer(cluster_id).steps())
