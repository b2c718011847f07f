"""A registry whose rows are of different moments, on which brokers have served: restore settles it.

The copy's partition row is older than its chain rows, so no chain that a start compares shows it.
"""

from collections.abc import Sequence

import pytest

from logstore.errors import Corrupt
from logstore.formats.chain_row import CHAIN, chain_sk
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.leading.takeover import Successor, take_over
from logstore.protocol.rows.metadata import read_partition_row
from logstore.restore.run import Restored, restore
from logstore.testing.audit import audit
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.moved import MovedLog
from tests.logstore.protocol.leading.test_cold_start import led_by_two
from tests.logstore.restore.test_restore import (
    check_everything_is_there,
    cluster_id,
    put_back,
)
from tests.logstore.restore.test_tables import TablesAtOnce
from tests.logstore.written import NoTables, WrittenLog


async def restored(written: WrittenLog, left_out: Sequence[int] = ()) -> Restored:
    return await restore(
        written.runner,
        cluster_id(written),
        TablesAtOnce(written) if isinstance(written, MovedLog) else NoTables(),
        dry_run=False,
        advance=lambda _: None,
        chains_left_out=left_out,
    )


async def given_away_twice(
    written: WrittenLog, count: int, *, moved_to: int = 0
) -> tuple[TopicPartition, int]:
    """Chain 2 holds leadership 1 of a partition with records, and so does the chain returned, with
    `count` records. Offsets below `moved_to` of the latter's history are moved to the table.
    """
    old, chain = await led_by_two(written)
    identity = await written._identity()
    await written.runner.run(
        take_over(identity.cluster_id, chain, 9, lambda *_: Successor(9, chain + 10))
    )
    row = at_once(written.rows.get(CHAIN, chain_sk(chain)))
    assert row is not None
    put_back(written, old)
    await written.runner.registry.update_if(CHAIN, chain_sk(chain), row)
    (key,) = written.records
    acknowledged = list(written.records[key])
    async with written.life(broker=1, clean=False) as log:
        leader = log.topics["orders"].leaders[0]
        assert (leader.leader_epoch, leader.high_watermark) == (1, 1)
        for _ in range(count):
            await written.write(log, leader, [EPOCH_MS])
        if isinstance(written, MovedLog):
            await written.move(log, leader, 0, moved_to)
            await written.tell_version(leader.topic_id)
        epoch = log.epoch
    written.records[key] = acknowledged
    return key, epoch


async def test_a_second_leadership_without_records_is_left_out() -> None:
    written = WrittenLog()
    key, epoch = await given_away_twice(written, 0)

    done = await restored(written)
    assert [(one.chain, one.leader_epoch) for one in done.left_out] == [(epoch, 1)]
    again = await restored(written)
    assert (again.rows, again.removed) == ({}, [])
    await check_everything_is_there(written, {key.topic_id: "orders"})
    assert not audit(written.objects, written.rows).violations
    await restored(written)  # whatever the next leaderships are called
    await check_everything_is_there(written, {key.topic_id: "orders"})


async def test_where_both_were_written_to_a_person_chooses() -> None:
    written = WrittenLog()
    key, epoch = await given_away_twice(written, 3)

    with pytest.raises(Corrupt, match=f"--leave-out {epoch}"):
        await restored(written)
    done = await restored(written, [epoch])
    assert [(one.chain, one.start, one.end) for one in done.left_out] == [(epoch, 1, 4)]
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        assert leader.high_watermark == len(written.records[key]) == 2


async def test_offsets_of_a_chain_left_out_that_the_table_holds_are_read_from_it_alone() -> None:
    """Else brokers would give the segments of the chain that counts, and Spark the table."""

    written = MovedLog()
    key, epoch = await given_away_twice(written, 1, moved_to=2)

    done = await restored(written, [epoch])
    (one,) = done.left_out
    assert (one.chain, one.start, one.end, one.in_table) == (epoch, 1, 2, (1, 2))
    row = await written.runner.run(read_partition_row(*key))
    assert row is not None and row.edited_end == 2


async def test_a_table_that_goes_on_beyond_the_chains_that_count_is_refused() -> None:
    written = MovedLog()
    _, epoch = await given_away_twice(written, 3, moved_to=4)

    with pytest.raises(Corrupt, match="the table holds offsets that no chain has"):
        await restored(written, [epoch])
