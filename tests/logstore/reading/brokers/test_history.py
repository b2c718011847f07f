"""Reading below the segments: what the table holds is served as if segments had never gone."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from logstore.epoch.leader import Leader
from logstore.epoch.log import Log
from logstore.errors import NotFound
from logstore.formats.index_rows import largest_timestamp, row_count
from logstore.formats.keys import CHAINS
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.formats.table_row import POINTER_AGAIN_S
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.brokers.readable import Readable
from logstore.reading.planning.table_batches import Compression
from logstore.records.batch import Codec, check_batch, split_batches
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.moved import ROOMY, MovedLog
from tests.logstore.waits import until
from tests.logstore.written import committed

RECORDS_PER_BATCH = 5
PAYLOAD_BYTES_MAX = 1 << 20


class Row(NamedTuple):
    """A record as a consumer sees it, and the batch's part in it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int
    log_append_time: bool


def play(scenario: Coroutine[Any, Any, None]) -> None:
    """On a real loop, since a virtual one has no threads."""
    asyncio.run(asyncio.wait_for(scenario, 60))


def records_of(number: int) -> list[Record]:
    """A batch of every kind of record: times that fall, nulls, headers twice and out of order."""
    first = 1_000_000 + 100 * number
    return [
        Record(0, first, b"k%d" % number, b"v" * (number % 50)),
        Record(1, first - 70, None, b"no key"),
        Record(2, first + 5, b"k", None),
        Record(3, first, b"", b"", [("b", b"1"), ("a", None), ("b", b""), ("", b"x")]),
        Record(4, first + 90, b"k%d" % (number % 3), b"%d" % number),
    ]


async def write(log: Log, leader: Leader, numbers: range, **batch: Any) -> None:
    """A segment for each number, so that checkpoints and trim points come."""
    for number in numbers:
        data = memoryview(encode_batch(records_of(number), **batch))
        appended = leader.append(data, check_batch(data, 0, len(data)))
        await committed(log, appended.seq)


def rows_of(data: bytes, offset: int) -> list[Row]:
    rows = []
    for at, header in split_batches(data):
        batch = memoryview(data)[at : at + header.size_bytes]
        for record in decode_records(batch, max_bytes=PAYLOAD_BYTES_MAX):
            row = Row(
                header.base_offset + record.offset_delta,
                record.timestamp,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                [(name, None if v is None else bytes(v)) for name, v in record.headers],
                header.leader_epoch,
                header.is_log_append_time,
            )
            if row.offset >= offset:
                rows.append(row)
    return rows


async def read(
    log: Log,
    partition: Readable,
    offset: int = 0,
    *,
    bytes_max: int = 600,
    compression: Compression = "producer",
) -> list[Row]:
    """As a consumer reads from `offset` to the high watermark."""
    found: list[Row] = []
    end = partition.high_watermark
    while offset < end:
        chunk = log.read_in_memory(partition, offset, end, bytes_max)
        chunk = chunk or await log.read(partition, offset, end, bytes_max, compression)
        assert chunk.byte_count == sum(map(len, chunk.buffers))
        found += rows_of(b"".join(chunk.buffers), offset)
        assert chunk.end_offset > offset, "a consumer would stand still"
        offset = chunk.end_offset
    return found


def key_of(partition: Readable) -> TopicPartition:
    return TopicPartition(partition.topic_id, partition.partition)


def segments(written: MovedLog) -> int:
    return len(written.keys(CHAINS))


class Moved(NamedTuple):
    """A log of which `moved` offsets lie in the table alone, and what was read before."""

    written: MovedLog
    log: Log
    leader: Leader
    rows: Sequence[Row]
    moved: int


@asynccontextmanager
async def moved_log(
    *, batches: int = 24, moved: int = 70, lives: int = 2, written: MovedLog | None = None
) -> AsyncIterator[Moved]:
    """Batches of several leaders; `moved` offsets go to the table, their segments are deleted."""
    written = written or MovedLog()
    each = batches // lives
    for life in range(lives - 1):
        async with written.life() as log:
            topic = log.topics.get("orders") or await log.create_topic("orders", 2, {})
            await write(log, topic.leaders[0], range(life * each, (life + 1) * each))
    async with written.life() as log:
        topic = log.topics.get("orders") or await log.create_topic("orders", 2, {})
        leader = topic.leaders[0]
        await write(log, leader, range((lives - 1) * each, batches))
        rows = await read(log, leader)
        assert len(rows) == batches * RECORDS_PER_BATCH
        await written.move(log, leader, 0, moved)
        before = segments(written)
        await written.trim({key_of(leader): moved})
        assert segments(written) < before
        yield Moved(written, log, leader, rows, moved)


def test_a_consumer_sees_every_record_once_and_nothing_of_the_seam() -> None:
    async def scenario() -> None:
        async with moved_log() as (_, log, leader, rows, moved):
            assert await read(log, leader) == rows
            assert 0 < await log.begin_of_segments(leader) <= moved < leader.high_watermark
            assert len({row.leader_epoch for row in rows}) == 2
            assert log.history.served_bytes > 0

    play(scenario())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(codec: Codec) -> None:
    async def scenario() -> None:
        async with moved_log() as (_, log, leader, rows, _):
            assert await read(log, leader, compression=codec) == rows
            chunk = await log.read(leader, 0, 10, 1 << 20, codec)
            ((_, header),) = split_batches(bytes(chunk.buffers[0]))
            assert header.compression == codec

    play(scenario())


def test_reading_may_begin_at_any_offset() -> None:
    async def scenario() -> None:
        async with moved_log() as (_, log, leader, rows, _):
            for offset in range(0, leader.high_watermark, 3):
                assert await read(log, leader, offset, bytes_max=1 << 20) == rows[offset:]

    play(scenario())


def test_leader_epochs_are_those_that_the_records_were_written_under() -> None:
    async def scenario() -> None:
        async with moved_log(lives=4) as (_, log, leader, rows, _):
            found = await read(log, leader, bytes_max=1 << 20)
            assert [row.leader_epoch for row in found] == [row.leader_epoch for row in rows]
            assert len({row.leader_epoch for row in rows[:70]}) > 2

    play(scenario())


def test_nothing_at_or_above_the_limit_is_served() -> None:
    async def scenario() -> None:
        async with moved_log() as (_, log, leader, _, _):
            chunk = await log.read(leader, 0, 3, 1 << 20)
            (first,) = list(split_batches(b"".join(chunk.buffers)))[:1]
            assert first[1].base_offset == 0
            assert chunk.end_offset >= 3

    play(scenario())


# Segments first


def test_while_segments_are_there_no_table_is_looked_at() -> None:
    async def scenario() -> None:
        written = MovedLog()
        async with written.life() as log:
            leader = (await log.create_topic("orders", 1, {})).leaders[0]
            await write(log, leader, range(12))
            rows = await read(log, leader)
            await written.move(log, leader, 0, 40)

            assert await read(log, leader) == rows
            assert log.history.refresh_count == 0
            assert await log.begin_of_segments(leader) == 0

    play(scenario())


def test_a_partition_that_starts_again_after_trimming_serves_the_same() -> None:
    """The index of what was trimmed is not in any checkpoint that the next leader reads."""

    async def scenario() -> None:
        async with moved_log() as before:
            rows, written = before.rows, before.written
        async with written.life() as log:
            leader = log.topics["orders"].leaders[0]
            assert await read(log, leader) == rows

    play(scenario())


def test_a_stretch_that_the_row_does_not_list_any_more_is_in_the_table() -> None:
    async def scenario() -> None:
        async with moved_log(moved=80) as (_, log, leader, rows, _):
            kept = tuple(ref for ref in leader.row.epoch_ranges if ref.start >= 60)
            assert len(kept) < len(leader.row.epoch_ranges)
            leader.epoch_ranges = kept
            assert await read(log, leader) == rows
            assert log.history.refresh_count > 0

    play(scenario())


def test_a_follower_serves_history_too() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, _):
            place = partition_pk(*key_of(leader)), partition_sk(*key_of(leader))
            await log.runner.registry.update_if(*place, {"replicas": "[1,2]"})
            async with written.life(broker=2) as other:
                followers = other.topics["orders"].followers
                await until(lambda: 0 in followers and followers[0].is_ready)

                assert await read(other, followers[0]) == rows
                assert other.history.served_bytes > 0

    play(scenario())


# Many at once


@pytest.mark.slow
def test_many_consumers_cost_what_one_does() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, _):
            found = await asyncio.gather(*(read(log, leader) for _ in range(20)))

            assert all(one == rows for one in found)
            assert log.history.refresh_count == 1
            assert written.reads_of_tables == await cost_of_one()

    async def cost_of_one() -> int:
        async with moved_log() as (written, log, leader, _, _):
            await read(log, leader)
            return written.reads_of_tables

    play(scenario())


def test_what_comes_next_is_made_at_the_same_time() -> None:
    async def scenario() -> None:
        async with moved_log() as (_, log, leader, rows, _):
            chunk = await log.read(leader, 0, 99, 300)
            assert log.history.miss_count == 1
            assert log.history.cache_bytes < 1000, "who begins may not go on"

            assert (
                await read(log, leader, chunk.end_offset, bytes_max=300)
                == (rows[chunk.end_offset :])
            )
            assert log.history.miss_count == 2
            assert log.history.hit_count > 5

    play(scenario())


def test_memory_is_bounded() -> None:
    async def scenario() -> None:
        settings = replace(ROOMY, cache_bytes_max=1000)
        async with moved_log(written=MovedLog(history=settings)) as (_, log, leader, rows, _):
            for _ in range(3):
                assert await read(log, leader) == rows
                assert log.history.cache_bytes < 2000

    play(scenario())


# The table changes


def test_a_file_that_is_gone_means_look_at_a_newer_version() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, _):
            assert await read(log, leader) == rows
            await written.merge(leader)

            assert await read(log, leader, compression="zstd") == rows  # nothing in memory serves
            assert log.history.refresh_count == 2

    play(scenario())


def test_a_file_that_the_newest_version_names_and_that_is_gone_is_reported() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, _):
            file = written.newest(leader.topic_id).files[0][0]
            written.delete_file(leader.topic_id, file)
            for _ in range(2):
                with pytest.raises(NotFound, match="names a file that is gone"):
                    await read(log, leader)
            begin = await log.begin_of_segments(leader)
            assert await read(log, leader, begin) == rows[begin:]

    play(scenario())


def test_a_newer_version_is_served_soon_after_the_copy_row_names_it() -> None:
    """Rows that the owner deleted from the table are not served for ever."""

    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, _):
            assert await read(log, leader) == rows
            await written.merge(leader, without=range(10, 20), keep_old_files=True)
            await written.tell_version(leader.topic_id)
            assert await read(log, leader) == rows

            written.clock.forward(POINTER_AGAIN_S)
            assert await read(log, leader) == [*rows[:10], *rows[20:]]

    play(scenario())


def test_a_table_that_grew_is_looked_at_again_when_segments_go() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, rows, moved):
            assert await read(log, leader) == rows
            await written.move(log, leader, moved, 100)
            await written.trim({key_of(leader): 100})
            assert await log.begin_of_segments(leader) > moved

            assert await read(log, leader) == rows

    play(scenario())


# Times


@pytest.mark.slow
def test_times_are_found_in_both_tiers() -> None:
    async def scenario() -> None:
        async with moved_log() as (_, log, leader, rows, _):
            end = leader.high_watermark
            for at in sorted({row.timestamp + d for row in rows for d in (-1, 0, 1)}):
                first = next((row for row in rows if row.timestamp >= at), None)
                found = await log.offset_for_time(leader, at, end)
                assert found == (first and (first.offset, first.timestamp, first.leader_epoch))

    play(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("latest_at", [12, 110])
def test_the_largest_timestamp_is_found_in_either_tier(latest_at: int) -> None:
    async def scenario() -> None:
        written = MovedLog()
        async with written.life() as log:
            leader = (await log.create_topic("orders", 1, {})).leaders[0]
            for at in range(0, 120, 2):
                late = 9_000_000 if at == latest_at else at
                records = [Record(0, late, None, b"v"), Record(1, 5, None, b"w")]
                data = memoryview(encode_batch(records))
                await committed(log, leader.append(data, check_batch(data, 0, len(data))).seq)
            await written.move(log, leader, 0, 70)
            await written.trim({key_of(leader): 70})

            found = await log.offset_of_max_timestamp(leader, 120)
            assert found == (latest_at, 9_000_000, leader.leader_epoch)

    play(scenario())


@pytest.mark.parametrize("moved", [0, 70])
@pytest.mark.parametrize(
    ("log_start", "expected"),
    [pytest.param(61, 84, id="of a deleted batch"), pytest.param(85, 85, id="of half a batch")],
)
def test_a_deleted_record_does_not_hide_the_largest_timestamp_of_the_others(
    log_start: int, expected: int, moved: int
) -> None:
    """Indexes sum up epoch ranges, also below log start; the table holds offsets below `moved`."""

    async def scenario() -> None:
        written = MovedLog()
        async with written.life() as log:
            leader = (await log.create_topic("orders", 1, {})).leaders[0]
            for at in range(0, 120, 2):
                late = {60: 9_000, 84: 800}.get(at, at)
                records = [Record(0, late, None, b"v"), Record(1, 700 + (at == 84), None, b"w")]
                data = memoryview(encode_batch(records))
                await committed(log, leader.append(data, check_batch(data, 0, len(data))).seq)
            if moved:
                await written.move(log, leader, 0, moved)
                await written.trim({key_of(leader): moved})
            leader.raise_log_start(log_start)

            found = await log.offset_of_max_timestamp(leader, 120)
            assert found is not None and found.offset == expected

    play(scenario())


@pytest.mark.parametrize("part_rows", [1, 3, 2048])
def test_the_largest_timestamp_is_looked_for_in_small_parts(
    monkeypatch: pytest.MonkeyPatch, part_rows: int
) -> None:
    """Where the largest was deleted, every row is looked at: how many hold the loop up at once?"""
    walked: list[int] = []

    def walk(rows: bytes, offset: int) -> tuple[int, int]:
        walked.append(row_count(rows))
        return largest_timestamp(rows, offset)

    async def scenario() -> None:
        written = MovedLog()
        async with written.life() as log:
            leader = (await log.create_topic("orders", 1, {})).leaders[0]
            for at in range(60):
                late = {10: 9_000, 42: 800}.get(at, at)
                data = memoryview(encode_batch([Record(0, late, None, b"v")]))
                await committed(log, leader.append(data, check_batch(data, 0, len(data))).seq)
            assert await log.offset_of_max_timestamp(leader, 60) == (10, 9_000, 0)
            assert not walked
            leader.raise_log_start(11)
            found = await log.offset_of_max_timestamp(leader, 60)
            assert found == (42, 800, leader.leader_epoch)

    monkeypatch.setattr("logstore.formats.index_rows.SCAN_ROWS_MAX", part_rows)
    monkeypatch.setattr("logstore.reading.brokers.read.largest_timestamp", walk)
    play(scenario())
    assert sum(walked) == 49
    assert max(walked) <= part_rows


def test_times_below_log_start_are_not_found() -> None:
    async def scenario() -> None:
        async with moved_log() as (_, log, leader, _, _):
            leader.raise_log_start(33)
            found = await log.offset_for_time(leader, 0, leader.high_watermark)
            assert found is not None and found.offset == 33

    play(scenario())


def test_where_segments_begin_and_the_table_ends_can_be_asked() -> None:
    async def scenario() -> None:
        async with moved_log() as (written, log, leader, _, moved):
            assert await log.table_end(leader) is None
            await written.tell_version(leader.topic_id)
            assert await log.table_end(leader) == moved
            assert 0 < await log.begin_of_segments(leader) <= moved

    play(scenario())
