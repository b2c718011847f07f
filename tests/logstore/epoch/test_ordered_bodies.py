"""Segments that several topics share: stored by topic and partition, read as they were written."""

import asyncio

import pytest

from logstore.epoch.leader import Leader
from logstore.epoch.log import Log
from logstore.formats.keys import segment_key
from logstore.formats.segment import Entry, EntryKind, decode_front
from logstore.formats.topic_partition import TopicPartition
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch, records_of
from logstore.slices import finish
from logstore.testing.audit import audit, records_of_batches
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.written import WrittenLog, committed

TURNS = 5


async def leaders_of(log: Log) -> list[Leader]:
    for name in ("orders", "payments"):
        if name not in log.topics:
            await log.create_topic(name, 2, {})
    return [log.topics[name].leaders[n] for name in ("orders", "payments") for n in (0, 1)]


async def write_in_turn(written: WrittenLog, log: Log, leaders: list[Leader]) -> None:
    """Batches of all partitions, mixed, in as few segments as there may be."""
    async with asyncio.TaskGroup() as tasks:
        for number in range(TURNS):
            for leader in leaders:
                tasks.create_task(written.write(log, leader, [EPOCH_MS + number]))


async def values_of(log: Log, leader: Leader) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = 0
    while offset < leader.high_watermark:
        chunk = log.read_in_memory(leader, offset, leader.high_watermark, 1000)
        chunk = chunk or await log.read(leader, offset, leader.high_watermark, 1000)
        values += [record.value for record in records_of_batches(b"".join(chunk.buffers))]
        offset = chunk.end_offset
    return values


def written_values(written: WrittenLog, leader: Leader) -> list[bytes]:
    key = TopicPartition(leader.topic_id, leader.partition)
    return [value for _, _, value in sorted(written.records[key])]


def stored_batches(written: WrittenLog, log: Log) -> list[list[Entry]]:
    """Of each segment, by position."""
    found = []
    for seq in range(1, log.writer.open_seq):
        index = decode_front(written.objects.get(segment_key(log.epoch, seq)))
        batches = [entry for entry in index.entries if entry.kind == EntryKind.BATCH]
        found.append(sorted(batches, key=lambda entry: entry.position))
    return found


@pytest.mark.parametrize("checkpoint_segments", [1, 2, 1000])
async def test_readers_find_each_record_where_it_was_moved_to(checkpoint_segments: int) -> None:
    written = WrittenLog(checkpoint_segments=checkpoint_segments)
    async with written.life(clean=False) as log:
        leaders = await leaders_of(log)
        for _ in range(3):
            await write_in_turn(written, log, leaders)
        is_mixed = False
        for batches in stored_batches(written, log):
            keys = [(entry.topic_id, entry.partition) for entry in batches]
            assert keys == sorted(keys) or len(keys) < 3
            is_mixed |= len(keys) > len(set(keys)) > 2
        assert is_mixed
        for leader in leaders:
            assert await values_of(log, leader) == written_values(written, leader)
    async with written.life(clean=True) as log:
        leaders = await leaders_of(log)
        for leader in leaders:
            assert await values_of(log, leader) == written_values(written, leader)
    reader = await written.reader()
    audited = audit(written.objects, written.rows)
    assert not audited.violations, audited.violations
    assert reader.topics().keys() == {"orders", "payments"}


async def test_a_large_state_is_found_in_a_segment_whose_batches_were_moved() -> None:
    """It is stored before the entry that names it, by the place that it has in the object."""

    written = WrittenLog(checkpoint_segments=1000, inline_bytes_max=1)
    async with written.life(clean=False) as log:
        leaders = await leaders_of(log)
        for number in range(TURNS):
            for leader in leaders:
                data = memoryview(
                    encode_batch(
                        records_of([(None, b"%d" % number)], timestamp=EPOCH_MS),
                        producer_id=7,
                        producer_epoch=0,
                        base_sequence=number,
                    )
                )
                leader.append(data, check_batch(data, 0, len(data)))
        seq = log.writer.open_seq
        await committed(log, leaders[0].release())
        index = decode_front(written.objects.get(segment_key(log.epoch, seq)))
        assert [e.kind for e in index.entries].count(EntryKind.BATCH) == TURNS * len(leaders)
        (state,) = [entry for entry in index.entries if entry.kind == EntryKind.STATE]
        assert state.position < max(entry.position for entry in index.entries)
    async with written.life() as log:
        for leader in await leaders_of(log):
            assert leader.high_watermark == TURNS
            assert [one.producer_id for one in finish(leader.active_producers())] == [7]
