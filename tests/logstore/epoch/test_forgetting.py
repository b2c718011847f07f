"""What a chain forgets is needed no more; what its checkpoints hold does not grow without end."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.epoch.forgetting import (
    CHECKPOINTS_LISTED_MIN,
    SLICE_LEADERS,
    Forgettable,
    deleted_below,
    find_forgettable,
    is_dropped,
    shorten_rows,
)
from logstore.epoch.leader import NotLeading
from logstore.epoch.log import Log
from logstore.formats.chain_row import CHAIN, chain_sk
from logstore.formats.chain_state import EpochKey, EpochRange
from logstore.formats.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from logstore.formats.keys import CHECKPOINTS
from logstore.formats.partition_row import EpochEntry, PartitionRow
from logstore.formats.partition_state import PartitionState
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.protocol.chain.follow import Follower, copy_of
from logstore.protocol.chain.walk import read_chain_at, read_on
from logstore.protocol.deletion.records_deletion import Raise, raise_log_start
from logstore.protocol.leading.leadership import change_leader, is_shorter, shortened
from logstore.protocol.rows.metadata import read_partition_row
from logstore.protocol.rows.view import RegistryUpdate
from logstore.testing.audit import audit
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.written import WrittenLog, committed

ID = bytes(16)


def check_stored(written: WrittenLog) -> None:
    assert audit(written.objects, written.rows).violations == []


def last_checkpoint(written: WrittenLog, epoch: int) -> Checkpoint:
    key = max(info.key for info in written.objects.list(f"{CHECKPOINTS}{epoch:020d}/"))
    return decode_checkpoint(written.objects.get(key))


async def forget(log: Log) -> int:
    count = await log.forget_ended()
    log.writer.flush()
    await committed(log, log.writer.appended_seq)
    return count


async def test_checkpoints_do_not_grow_with_topics_that_come_and_go() -> None:
    written = WrittenLog(checkpoint_segments=4)
    async with written.life() as log:
        kept = (await log.create_topic("kept", 1, {})).leaders[0]
        for number in range(40):
            name = f"topic {number}".replace(" ", "-")
            leader = (await log.create_topic(name, 2, {})).leaders[0]
            await written.write(log, leader, [EPOCH_MS], producer_id=number, producer_epoch=0,
                                base_sequence=0)  # fmt: skip
            assert await forget(log) == (2 if number else 0)
            await log.delete_topic(name)
            assert len(log.writer.chain.epoch_ranges) == len(log.writer.appenders) == 3
        await forget(log)
        for _ in range(8):
            await written.write(log, kept, [EPOCH_MS])
        assert list(last_checkpoint(written, log.epoch).epoch_ranges) == [kept.key]
        epoch = log.epoch
    assert list(last_checkpoint(written, epoch).epoch_ranges) == [kept.key]
    check_stored(written)
    async with written.life() as log:  # taken over as ever
        assert log.topics["kept"].leaders[0].log_end == 8
    check_stored(written)


async def test_a_topic_that_no_record_calls_deleted_is_not_forgotten() -> None:
    """The registry may be an older copy, put back, which does not know the topic."""

    written = WrittenLog()
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS])
        ended = {leader.key: leader.epoch_range}
        found = await log.runner.run(find_forgettable(ended, frozenset()))
        assert found.epoch_ranges == []
        await log.delete_topic("orders")
        found = await log.runner.run(find_forgettable(ended, frozenset()))
        assert found.epoch_ranges == [leader.key]


async def hand_over_to_itself(log: Log) -> None:
    """Release, and take back under the next leader epoch, as a move to another and back does."""
    leader = log.topics["orders"].leaders[0]
    leader.release()
    log.writer.flush()
    await committed(log, log.writer.appended_seq)
    key = TopicPartition(leader.topic_id, 0)
    await log.runner.run(
        change_leader(
            key,
            leader.row,
            broker=log.me.broker,
            chain=log.epoch,
            start=leader.log_end,
            known_from=leader.leader_epoch,
        )
    )
    log.look_again()
    while log.topics["orders"].leaders.get(0) in (None, leader):
        await log.runner.clock.sleep_s(0.1)


@pytest.mark.slow
async def test_stretches_that_a_row_drops_are_forgotten_and_no_others() -> None:
    written = WrittenLog(checkpoint_segments=4)
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        known: set[int] = set()
        for number in range(20):
            leader = log.topics["orders"].leaders[0]
            await written.write(log, leader, [EPOCH_MS], producer_id=7, producer_epoch=0,
                                base_sequence=number)  # fmt: skip
            if number > 10:
                raised = Raise(
                    leader.topic_id, 0, log.epoch, leader.leader_epoch, leader.log_end - 1
                )
                await log.runner.run(raise_log_start(raised))
                leader.follow_row(await row_of(log, leader.topic_id))
            await hand_over_to_itself(log)
            await forget(log)
            row = await row_of(log, leader.topic_id)
            known = {key.leader_epoch for key in log.writer.chain.epoch_ranges}
            assert known == {ref.leader_epoch for ref in row.epoch_ranges}
        assert len(known) <= 3
        assert list(log.topics["orders"].leaders[0].epoch_range.state.producers) == [7]
        check_stored(written)
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        assert (leader.log_end, list(leader.epoch_range.state.producers)) == (20, [7])
    check_stored(written)


async def test_a_row_drops_stretches_below_log_start_without_a_change_of_leader() -> None:
    """Where a partition stays with its leader for months, the one before could never forget it."""

    written = WrittenLog(checkpoint_segments=4)
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        for _ in range(5):
            await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
            await hand_over_to_itself(log)
        leader = log.topics["orders"].leaders[0]
        assert len((await row_of(log, leader.topic_id)).epoch_ranges) == 6
        raised = Raise(leader.topic_id, 0, log.epoch, leader.leader_epoch, 3)
        await log.runner.run(raise_log_start(raised))
        leader.follow_row(await row_of(log, leader.topic_id))
        assert await forget(log) == 3
        row = await row_of(log, leader.topic_id)
        assert [ref.start for ref in row.epoch_ranges] == [3, 4, 5]
        assert (row.log_start, leader.epoch_ranges) == (3, row.epoch_ranges)
        assert await forget(log) == 0
        await hand_over_to_itself(log)
        assert len((await row_of(log, leader.topic_id)).epoch_ranges) == 4
    check_stored(written)
    async with written.life() as log:
        assert log.topics["orders"].leaders[0].log_end == 5
    check_stored(written)


async def test_a_chain_says_what_was_deleted_until_the_topic_is() -> None:
    """So restore knows why offsets are in no chain; a deleted topic leaves nothing behind."""

    written = WrittenLog(checkpoint_segments=4)
    async with written.life() as log:
        kept = (await log.create_topic("kept", 1, {})).leaders[0]
        await log.create_topic("orders", 1, {})
        early = Follower(log.cluster_id, log.epoch)
        await log.runner.run(early.advance())
        noted: dict[TopicPartition, int] = {}
        for number in range(3):
            await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
            await hand_over_to_itself(log)
            leader = log.topics["orders"].leaders[0]
            raised = Raise(leader.topic_id, 0, log.epoch, leader.leader_epoch, number + 1)
            await log.runner.run(raise_log_start(raised))
            leader.follow_row(await row_of(log, leader.topic_id))
            assert await forget(log) == 1
            noted = {TopicPartition(leader.topic_id, 0): number + 1}
            assert log.writer.chain.deleted_below == noted
        for _ in range(4):
            await written.write(log, kept, [EPOCH_MS])
        front = last_checkpoint(written, log.epoch)
        assert dict(front.deleted_below) == noted
        cold = await log.runner.run(read_chain_at(log.cluster_id, log.epoch, front.seq))
        await log.runner.run(read_on(cold))
        await log.runner.run(early.advance())
        await log.runner.run(early.read_row())
        assert encode_checkpoint(copy_of(early.state)) == encode_checkpoint(cold)
        check_stored(written)
        await log.delete_topic("orders")
        await forget(log)
        for _ in range(4):
            await written.write(log, kept, [EPOCH_MS])
        assert dict(last_checkpoint(written, log.epoch).deleted_below) == {}
    check_stored(written)


async def test_what_a_chain_noted_is_dropped_also_when_all_its_stretches_were_forgotten() -> None:
    written = WrittenLog()
    async with written.life() as log:
        topic_id = (await log.create_topic("orders", 1, {})).topic_id
        await log.delete_topic("orders")
        assert await forget(log) == 1
        log.writer.note_deleted(TopicPartition(topic_id, 0), 5)
        assert await forget(log) == 0
        assert log.writer.chain.deleted_below == {}
    check_stored(written)


P = TopicPartition(ID, 0)


@pytest.mark.parametrize(
    "offsets, noted, deleted, expected",
    [
        ((20, 25), {}, (), {P: 25}),
        ((20, 25), {P: 30}, (), {}),  # never goes down
        ((20, 20), {}, (), {}),  # without records: log start may lie below
        ((20, 25), {}, (ID,), {}),
        ((20, 25), {P: 10}, (ID,), {P: 0}),
    ],
)
def test_what_is_said_of_deleted_records(
    offsets: tuple[int, int],
    noted: dict[TopicPartition, int],
    deleted: tuple[bytes, ...],
    expected: dict[TopicPartition, int],
) -> None:
    key = EpochKey(ID, 0, 2)
    ended = {key: EpochRange(*offsets, PartitionState(), released=True)}

    assert deleted_below(ended, Forgettable([key], deleted), noted) == expected


async def test_a_leader_whose_take_is_not_committed_drops_nothing() -> None:
    """The state it inherited is in an earlier epoch range alone."""

    written = WrittenLog()
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
        await hand_over_to_itself(log)
        leader = log.topics["orders"].leaders[0]
        raised = Raise(leader.topic_id, 0, log.epoch, leader.leader_epoch, 1)
        await log.runner.run(raise_log_start(raised))
        leader.follow_row(await row_of(log, leader.topic_id))
        leader.has_begun = False
        assert await shorten_rows(log.runner, [leader]) == 0
        leader.has_begun = True
        assert await shorten_rows(log.runner, [leader]) == 1


async def test_a_leader_keeps_its_shortened_row_when_another_row_of_its_topic_changes() -> None:
    """The catalog has the row as it was read before."""

    written = WrittenLog()
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS])
        await hand_over_to_itself(log)
        leader = topic.leaders[0]
        raised = Raise(leader.topic_id, 0, log.epoch, leader.leader_epoch, 1)
        await log.runner.run(raise_log_start(raised))
        leader.follow_row(await row_of(log, leader.topic_id))
        assert await shorten_rows(log.runner, [leader]) == 1
        shorter = leader.row

        changed = TopicRow(topic.topic_id, TopicStatus.LIVE, 1, {"retention.ms": "5"}, 1, 9)
        log._on_update(RegistryUpdate(log.feed_version, {"orders": changed}, {}))

        assert topic.configs == changed.configs
        assert leader.row == shorter == await row_of(log, leader.topic_id)
        assert leader.epoch_ranges == shorter.epoch_ranges


def test_rows_of_many_partitions_are_looked_at_in_slices() -> None:
    async def scenario() -> None:
        async with WrittenLog().life() as log:
            await log.create_topic("orders", 1, {})
            leaders = [log.topics["orders"].leaders[0]] * (3 * SLICE_LEADERS)
            clock, passes = log.runner.clock, 0

            async def others() -> None:
                nonlocal passes
                while True:
                    passes += 1
                    await clock.sleep_s(0)

            async with asyncio.TaskGroup() as tasks:
                beside = tasks.create_task(others())
                assert await shorten_rows(log.runner, leaders) == 0
                assert passes >= 3, "others had their turn between slices"
                beside.cancel()

    run(scenario())


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 9), st.integers(0, 9))
def test_a_row_is_shorter_where_shortening_leaves_something_out(
    starts: list[int], log_start: int, durable_end: int
) -> None:
    refs = tuple(EpochEntry(epoch, 1, start) for epoch, start in enumerate(sorted(starts)))
    row = PartitionRow(
        broker=1, chain=1, leader_epoch=len(refs) - 1, log_start=log_start, epoch_ranges=refs
    )
    assert is_shorter(row, durable_end) == (shortened(row, durable_end) != row)


async def row_of(log: Log, topic_id: bytes) -> PartitionRow:
    row = await log.runner.run(read_partition_row(topic_id, 0))
    assert row is not None
    return row


async def test_a_list_of_checkpoints_is_cut_where_they_are_deleted() -> None:
    written = WrittenLog(checkpoint_segments=2)
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        early = Follower(log.cluster_id, log.epoch)
        await log.runner.run(early.advance())
        for _ in range(2 * CHECKPOINTS_LISTED_MIN + 10):
            await written.write(log, leader, [EPOCH_MS])
        checkpoints = log.writer.checkpoints.durable
        assert len(checkpoints) > CHECKPOINTS_LISTED_MIN
        trim = checkpoints[-3]
        await written.runner.registry.update_if(
            CHAIN, chain_sk(log.epoch), {"trim": trim, "deleted": trim}
        )
        await forget(log)
        for _ in range(4):
            await written.write(log, leader, [EPOCH_MS])
        chain = log.writer.chain
        front = last_checkpoint(written, log.epoch)
        assert front.earlier[0] == chain.checkpoints[0] == trim
        cold = await log.runner.run(read_chain_at(log.cluster_id, log.epoch, front.seq))
        await log.runner.run(read_on(cold))
        await log.runner.run(early.advance())
        await log.runner.run(early.read_row())
        assert early.checkpoints == cold.checkpoints
        assert encode_checkpoint(copy_of(early.state)) == encode_checkpoint(cold)


def row_with(*leader_epochs: int, log_start: int = 30, reason: str = "") -> PartitionRow:
    refs = tuple(EpochEntry(number, 1, 10 * number) for number in leader_epochs)
    return PartitionRow(
        broker=1,
        chain=1,
        leader_epoch=leader_epochs[-1],
        log_start=log_start,
        epoch_ranges=refs,
        start_reason=reason or f"retention: {log_start}",
    )


@pytest.mark.parametrize(
    "is_released, row, expected",
    [
        (True, row_with(3), True),
        (True, row_with(3, log_start=25), True),
        (True, row_with(3, log_start=24), False),  # the topic's table holds it, trimming asks
        (True, row_with(3, reason="another"), False),
        (True, row_with(2, 3), False),
        (True, row_with(2), False),
        (True, row_with(1), False),
        (True, None, False),
        (False, row_with(3), False),
    ],
)
def test_a_row_drops_what_it_lists_no_more(
    is_released: bool, row: PartitionRow | None, expected: bool
) -> None:
    epoch_range = EpochRange(20, 25, PartitionState(), released=is_released)
    assert is_dropped(EpochKey(ID, 0, 2), epoch_range, row) is expected


async def test_nothing_is_appended_to_a_stretch_that_was_forgotten() -> None:
    """Some client may still know its leader; an entry outside any epoch range ends a chain."""

    written = WrittenLog()
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS])
        await log.delete_topic("orders")
        assert await forget(log) == 1
        with pytest.raises(NotLeading):
            written.append(leader, [EPOCH_MS])
    check_stored(written)
