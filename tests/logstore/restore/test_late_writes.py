"""A request that a broker sent before a restore, and that lands after it."""

import pytest

from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.protocol.deletion.segments import publish_trim
from logstore.registry.memory import MemoryRows
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.restore.test_restore import (
    check_everything_is_there,
    cluster_id,
    copy_of,
    names_of,
    play,
    put_back,
    rebuild,
)
from tests.logstore.written import WrittenLog


def chain_row(written: WrittenLog, epoch: int) -> ChainRow:
    row = at_once(written.rows.get(CHAIN, chain_sk(epoch)))
    assert row is not None
    return ChainRow.of(row)


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_trim_point_that_was_sent_before_a_restore_is_refused_after_it(is_lost: bool) -> None:
    """A stopped broker had sent it, by a log start that the restored registry does not have."""

    async def story(written: WrittenLog) -> None:
        cluster, copy = cluster_id(written), copy_of(written.rows)
        sent = {epoch: chain_row(written, epoch) for epoch in (1, 3)}
        put_back(written, MemoryRows() if is_lost else copy)
        await rebuild(written, cluster)
        await rebuild(written, cluster)
        for epoch, row in sent.items():
            assert chain_row(written, epoch).trim == row.trim
            late = publish_trim(epoch, row, row.checkpoint, EPOCH_MS)
            assert not await written.runner.run(late)
            assert chain_row(written, epoch).trim == row.trim
        await check_everything_is_there(written, names_of(written))

    play(story)
