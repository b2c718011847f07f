"""Reading what is not there: offsets without records, tables and files that are gone or damaged."""

import pytest

from logstore.errors import Corrupt, NotFound
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.protocol.deletion.records_deletion import OffsetOutOfRange
from logstore.reading.brokers.history import BadTable
from logstore.reading.brokers.tiers import chunk_without_records
from logstore.records.batch import split_batches
from tests.logstore.raised import raised_to
from tests.logstore.reading.brokers.test_history import (
    key_of,
    moved_log,
    play,
    read,
    rows_of,
    write,
)


def test_offsets_that_compaction_left_out_are_passed_over() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, _):
            await written.merge(leader, without=range(30, 45))

            assert await read(log, leader) == [*rows[:30], *rows[45:]]
            chunk = await log.read(leader, 33, 99, 1)
            assert next(split_batches(bytes(chunk.buffers[0])))[1].base_offset == 45

    play(scenario())


def test_a_table_that_ends_with_offsets_left_out_goes_on_in_segments() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, moved):
            await written.merge(leader, without=range(50, moved))

            assert await read(log, leader) == [*rows[:50], *rows[moved:]]
            assert await read(log, leader, 60) == rows[moved:]

    play(scenario())


def test_where_no_record_follows_up_to_the_end_a_consumer_gets_there_by_an_empty_batch() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, moved):
            await written.merge(leader, without=range(50, moved))

            chunk = await log.read(leader, 55, moved, 600)
            ((_, header),) = split_batches(bytes(chunk.buffers[0]))
            assert (header.base_offset, header.record_count, header.next_offset) == (55, 0, moved)
            assert (chunk.byte_count, chunk.end_offset) == (header.size_bytes, moved)
            last = await log.read(leader, 49, moved, 600)
            assert rows_of(b"".join(last.buffers), 49) == [rows[49]]

    play(scenario())


def test_the_last_batch_of_a_table_ends_where_the_table_does() -> None:
    """As Kafka's log cleaner leaves it: no request for the rest, which has no records."""

    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, moved):
            await written.merge(leader, without=range(50, moved))

            chunk = await log.read(leader, 40, moved, 1 << 20)
            headers = [header for _, header in split_batches(b"".join(chunk.buffers))]
            assert chunk.end_offset == headers[-1].next_offset == moved
            assert rows_of(b"".join(chunk.buffers), 40) == rows[40:50]
            behind = await log.read(leader, 40, 60, 1 << 20)
            headers = [header for _, header in split_batches(b"".join(behind.buffers))]
            assert behind.end_offset == headers[-1].next_offset == 60, "beyond what is committed"

    play(scenario())


def test_the_last_batch_of_a_file_ends_with_the_file() -> None:
    async def scenario() -> None:
        async with moved_log(moved=40) as (written, log, leader, rows, _):
            await written.move(log, leader, 40, 70)
            await written.trim({key_of(leader): 70})

            assert await read(log, leader, bytes_max=1 << 20) == rows

    play(scenario())


def test_a_gap_longer_than_a_batch_can_name_takes_several() -> None:
    chunk = chunk_without_records(7, 2**32)

    ((_, header),) = split_batches(bytes(chunk.buffers[0]))
    assert header.next_offset == chunk.end_offset == 7 + 2**31


def test_what_neither_tier_holds_is_an_error_that_names_it() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, moved):
            written.made.delete_table(leader.topic_id)
            for _ in range(2):
                with pytest.raises(
                    NotFound, match="neither segments nor the topic's table"
                ) as reported:
                    await log.read(leader, 7, 99, 1000)
                assert leader.topic_id.hex() in str(reported.value)
                assert "offset=7" in str(reported.value)
            assert await read(log, leader, moved) == rows[moved:]

    play(scenario())


def test_below_a_log_start_that_has_risen_is_out_of_range() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, _, _):
            written.made.delete_table(leader.topic_id)
            place = partition_pk(*key_of(leader)), partition_sk(*key_of(leader))
            await written.runner.registry.update_if(*place, raised_to(50))
            for _ in range(2):
                with pytest.raises(OffsetOutOfRange):
                    await log.read(leader, 7, 99, 1000)
            assert leader.log_start == 50  # a consumer that goes to the log start gets there

    play(scenario())


def test_a_file_that_is_no_parquet_is_reported_and_other_partitions_are_served() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, moved):
            file = written.newest(leader.topic_id).files[0][0]
            written.damage_file(leader.topic_id, file)
            other = log.topics["orders"].leaders[1]
            await write(log, other, range(3))
            with pytest.raises(BadTable):
                await read(log, leader)
            with pytest.raises(Corrupt):
                await log.offset_for_time(leader, 0, 99)
            assert await read(log, leader, moved) == rows[moved:]
            assert len(await read(log, other)) == 15

    play(scenario())
