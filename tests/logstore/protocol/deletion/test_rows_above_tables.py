"""A row lists no epoch range that the topic's table holds; nothing is taken for lost because of
it.
"""

import pytest

from logstore.epoch.log import Log
from logstore.errors import Corrupt
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.names import TABLES
from logstore.protocol.deletion.trimming import Trimmer
from logstore.protocol.leading.leadership import shortened
from logstore.protocol.partitions.lookup import BelowTrimPoint
from logstore.protocol.rows.metadata import read_partition_row
from logstore.testing.audit import audit
from logstore.testing.history import Partition
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.epoch.test_forgetting import hand_over_to_itself
from tests.logstore.moved import MovedLog
from tests.logstore.reading.brokers.test_history import key_of, moved_log, play, read, write
from tests.logstore.restore.test_restore import cluster_id
from tests.logstore.restore.test_tables import rebuild
from tests.logstore.written import WrittenLog
from tests.simulation.tiers.fsck import check_stored, shown


async def row_of(log: Log, key: TopicPartition) -> PartitionRow:
    row = await log.runner.run(read_partition_row(*key))
    assert row is not None
    return row


def problems(written: MovedLog) -> list[str]:
    return [shown(problem) for problem in check_stored(written.objects, written.rows)]


def test_a_row_lists_no_stretch_that_the_table_holds_and_all_is_read_as_before() -> None:
    async def scenario() -> None:
        async with moved_log(lives=4, moved=80) as (written, log, leader, rows, moved):
            key = key_of(leader)
            starts = [ref.start for ref in (await row_of(log, key)).epoch_ranges]
            assert starts == [0, 30, 60, 90]
            assert await log.forget_ended({key: moved}) == 0

            starts = [ref.start for ref in (await row_of(log, key)).epoch_ranges]
            assert starts == [60, 90]
            assert leader.epoch_ranges == (await row_of(log, key)).epoch_ranges
            assert await read(log, leader) == rows
            latest = max(rows, key=lambda row: (row.timestamp, -row.offset))
            found = await log.offset_of_max_timestamp(leader, leader.high_watermark)
            assert found is not None and found.offset == latest.offset
            for row in rows[::7]:
                first = next(one for one in rows if one.timestamp >= row.timestamp)
                found = await log.offset_for_time(leader, row.timestamp, leader.high_watermark)
                assert found is not None and found.offset == first.offset
            assert problems(written) == []
            assert audit(written.objects, written.rows, {Partition(*key): moved}).violations == []
        async with written.life() as log:
            assert await read(log, log.topics["orders"].leaders[0]) == rows
        assert problems(written) == []

    play(scenario())


async def test_a_chain_keeps_a_stretch_that_its_row_drops_because_a_table_holds_it() -> None:
    """Trimming asks the table about it once more before it deletes: it may have gone back."""

    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        for _ in range(6):
            await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS] * 5)
            await hand_over_to_itself(log)
        leader = log.topics["orders"].leaders[0]
        key = key_of(leader)
        assert await log.forget_ended({key: 20}) == 0
        assert [ref.start for ref in (await row_of(log, key)).epoch_ranges] == [20, 25, 30]
        assert len(log.writer.chain.epoch_ranges) == 7
        for _ in range(12):
            await written.write(log, leader, [EPOCH_MS])

        trimmer = Trimmer(log.cluster_id, grace_ms=0)
        done = await log.runner.run(trimmer.steps(durable_ends={key: 3}))
        assert done.published == {}
        done = await log.runner.run(trimmer.steps(durable_ends={key: 20}))
        assert done.published
        with pytest.raises(Corrupt, match="trim point is too high"):
            await log.runner.run(trimmer.steps(durable_ends={key: 3}))
    assert audit(written.objects, written.rows, {Partition(*key): 20}).violations == []


@pytest.mark.parametrize("table_end", [0, 30, 59])
def test_an_epoch_range_that_neither_row_nor_table_accounts_for_is_reported(table_end: int) -> None:
    async def scenario() -> None:
        written = MovedLog()
        for life in range(3):
            async with written.life() as log:
                topic = log.topics.get("orders") or await log.create_topic("orders", 1, {})
                await write(log, topic.leaders[0], range(6))
                if life == 2:
                    if table_end:
                        await written.move(log, topic.leaders[0], 0, table_end)
                    assert problems(written) == []
                    await log.forget_ended({key_of(topic.leaders[0]): 60})
        found = problems(written)
        assert any("leadership-begin entry without its row" in one for one in found)
        assert any("in no epoch range" in one for one in found)

    play(scenario())


@pytest.mark.slow
def test_restore_lists_what_chains_hold_whatever_the_row_lists() -> None:
    async def scenario() -> None:
        async with moved_log(lives=4, moved=80) as (written, log, leader, rows, moved):
            await log.forget_ended({key_of(leader): moved})
        await rebuild(written, cluster_id(written))
        starts = [ref.start for ref in (await row_of(log, key_of(leader))).epoch_ranges]
        assert starts == [0, 30, 60, 90]
        assert problems(written) == []
        async with written.life() as log:
            assert await read(log, log.topics["orders"].leaders[0]) == rows

    play(scenario())


def test_a_reader_without_a_broker_takes_unlisted_offsets_for_moved() -> None:
    async def scenario() -> None:
        async with moved_log(lives=4, moved=80) as (written, log, leader, rows, moved):
            await log.forget_ended({key_of(leader): moved})
            reader = await written.reader()
            (view,) = [v for k, v in reader.partitions(reader.topics()).items() if not k.partition]
            key = key_of(leader)
            with pytest.raises(BelowTrimPoint, match="no longer listed"):
                reader.offset_for_time(key, view, rows[0].timestamp)
            with pytest.raises(BelowTrimPoint, match="is it in the table"):
                reader.segment_ranges(key, view.row, 0, view.end)
            assert reader.segment_ranges(key, view.row, moved, view.end)[0].offsets.start == moved

    play(scenario())


def test_a_look_up_by_time_sees_every_offset_though_the_row_shrinks_during_it() -> None:
    """While the table is asked for what is below the segments."""

    async def scenario() -> None:
        async with moved_log(lives=4, moved=40) as (written, log, leader, rows, moved):
            await written.move(log, leader, moved, 90)
            begin = await log.begin_of_segments(leader)
            assert 0 < begin < 60
            get_range = written.objects.get_range

            def shrinking(key: str, start: int, length: int) -> bytes:
                if key.startswith(f"{TABLES}/"):
                    leader.follow_row(shortened(leader.row, 90))
                return get_range(key, start, length)

            written.objects.get_range = shrinking  # type: ignore[method-assign]
            assert leader.epoch_ranges[0].start == 0
            time_ms = max(row.timestamp for row in rows[:begin]) + 1
            wanted = next(row for row in rows if row.timestamp >= time_ms)
            found = await log.offset_for_time(leader, time_ms, leader.high_watermark)
            assert begin <= wanted.offset < 90
            assert leader.epoch_ranges[0].start == 90
            assert found is not None and found.offset == wanted.offset

    play(scenario())
