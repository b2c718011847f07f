"""The log of one broker over its lives: what was acknowledged is read, what is stored is sound."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.epoch.full_disk import CLOSE_S
from logstore.epoch.leader import EARLY_S, Leader, NotLeading, ProducerRefused
from logstore.epoch.log import Log
from logstore.epoch.watch import EVERYTHING_S
from logstore.errors import Fenced, LogstoreError, NoRoom
from logstore.formats.broker_row import BROKER
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.checkpoint import decode_checkpoint
from logstore.formats.keys import CHAINS, CHECKPOINTS, segment_key
from logstore.formats.leadership_payload import INLINE_BYTES_MAX
from logstore.formats.partition_state import SLICE_PRODUCERS
from logstore.formats.segment import EntryKind, SegmentKind, decode_front, decode_header
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC
from logstore.objects.memory import MemoryStore
from logstore.ports.clock import Clock
from logstore.ports.objects import Buffer
from logstore.ports.registry import Comparison, Condition, Registry, Row
from logstore.protocol.chain.walk import read_chain_at
from logstore.protocol.partitions.producers import Refusal
from logstore.records.batch import check_batch
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch, records_of
from logstore.testing.audit import audit, records_of_batches
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.logstore.written import WrittenLog, committed


def check_stored(written: WrittenLog) -> None:
    assert audit(written.objects, written.rows).violations == []


async def read_values(log: Log, leader: Leader, offset: int = 0) -> list[bytes]:
    values, end = [], leader.high_watermark
    while offset < end:
        chunk = log.read_in_memory(leader, offset, end, 100)
        chunk = chunk or await log.read(leader, offset, end, 100)
        found = records_of_batches(b"".join(chunk.buffers))
        values += [record.value for record in found if record.offset >= offset]
        offset = chunk.end_offset
    return values


def keys(written: WrittenLog, prefix: str) -> Iterable[str]:
    return [info.key for info in written.objects.list(prefix)]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 2), max_size=15), st.booleans()), min_size=1, max_size=4
    ),
    st.integers(2, 6),
)
@settings(max_examples=50)
def test_what_was_acknowledged_is_read_in_every_later_life(
    lives: list[tuple[list[int], bool]], segments: int
) -> None:
    async def scenario() -> None:
        written = WrittenLog(checkpoint_segments=segments)
        for partitions, clean in [*lives, ([], True)]:
            async with written.life(clean=clean) as log:
                topic = log.topics.get("orders") or await log.create_topic("orders", 3, {})
                for partition in partitions:
                    await written.write(log, topic.leaders[partition], [EPOCH_MS] * 2)
                for leader in topic.leaders.values():
                    key = TopicPartition(leader.topic_id, leader.partition)
                    expected = [value for _, _, value in written.records.get(key, [])]
                    assert await read_values(log, leader) == expected
                    assert (
                        await read_values(log, leader, len(expected) // 2)
                        == (expected[len(expected) // 2 :])
                    )
        check_stored(written)

    run(scenario())


@pytest.mark.slow
async def test_an_idle_log_puts_nothing() -> None:
    written = WrittenLog()
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        before = list(keys(written, ""))
        await written.runner.clock.sleep_s(3600)
        assert keys(written, "") == before


async def test_a_clean_stop_leaves_a_checkpoint_that_the_next_start_begins_at() -> None:
    written = WrittenLog(checkpoint_segments=1000)
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        for _ in range(20):
            await written.write(log, topic.leaders[0], [EPOCH_MS])
        epoch, end = log.epoch, log.writer.open_seq
    row = at_once(written.rows.get(CHAIN, chain_sk(epoch)))
    assert row is not None
    assert ChainRow.of(row).checkpoint == end
    for seq in range(1, end):
        written.objects.delete(segment_key(epoch, seq))
    async with written.life() as log:
        assert log.topics["orders"].leaders[0].high_watermark == 20
    row = at_once(written.rows.get(CHAIN, chain_sk(epoch)))
    assert row is not None
    assert (ChainRow.of(row).status, ChainRow.of(row).seal) == (ChainStatus.SEALED, end)


async def test_a_leader_and_who_takes_over_make_the_same_checkpoint() -> None:
    """At a clean stop the leader made it; take its object and row away, and the heir makes it."""

    written = WrittenLog(checkpoint_segments=1000)
    async with written.life() as log:
        topic = await log.create_topic("orders", 2, {})
        for number in range(18):
            leader = topic.leaders[number % 2]
            await written.write(
                log, leader, [EPOCH_MS + number], producer_id=number % 3,
                producer_epoch=0, base_sequence=number // 6,
            )  # fmt: skip
        epoch = log.epoch
    (key,) = keys(written, f"{CHECKPOINTS}{epoch:020d}")
    made_live = written.objects.get(key)
    written.objects.delete(key)
    await written.runner.registry.update_if(CHAIN, chain_sk(epoch), {"checkpoint": 0})
    async with written.life():
        assert written.objects.get(key) == made_live
    assert decode_checkpoint(made_live).broker == 1


async def test_a_state_above_64_kib_goes_ahead_in_pieces_and_comes_back_whole() -> None:
    written = WrittenLog()
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        last = 0
        for producer in range(2_000):
            data = batch_of(producer, 0)
            last = leader.append(data, check_batch(data, 0, len(data))).seq
        await committed(log, last)
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        for producer in (0, 999, 1_999):
            data = batch_of(producer, 0)
            assert leader.append(data, check_batch(data, 0, len(data))).base_offset == producer
        epoch = log.epoch
    front = decode_front(written.objects.get(segment_key(epoch, 1)))
    assert [entry.kind for entry in front.entries] == [EntryKind.STATE]
    assert front.entries[0].length > INLINE_BYTES_MAX
    check_stored(written)


def batch_of(producer: int, sequence: int) -> memoryview:
    records = records_of([(None, b"value")], timestamp=EPOCH_MS)
    return memoryview(
        encode_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence)
    )


def append(leader: Leader, producer: int, sequence: int) -> tuple[int, int]:
    data = batch_of(producer, sequence)
    appended = leader.append(data, check_batch(data, 0, len(data)))
    return appended.base_offset, appended.seq


async def test_a_repeat_of_what_is_in_flight_waits_for_it() -> None:
    written = WrittenLog()
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        first = append(leader, 7, 0)
        assert append(leader, 7, 0) == first
        answered: list[LogstoreError | None] = []
        log.when_committed(first[1], answered.append)
        assert answered == []
        await committed(log, first[1])
        assert answered == [None]
        again = append(leader, 7, 0)
        assert again[0] == first[0]
        log.when_committed(again[1], answered.append)
        assert answered == [None, None]


async def test_a_producer_out_of_order_is_refused_in_the_next_life_too() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await committed(log, append(leader, 7, 0)[1])
    async with written.life() as log:
        leader = log.topics["orders"].leaders[0]
        with pytest.raises(NotLeading, match="a batch before this one is missing"):
            append(leader, 7, 2)
        await written.runner.clock.sleep_s(EARLY_S + 1)
        with pytest.raises(ProducerRefused) as refused:
            append(leader, 7, 2)
        assert refused.value.refusal is Refusal.OUT_OF_ORDER
        assert append(leader, 7, 0)[0] == 0
        assert append(leader, 7, 1)[0] == 1


async def test_a_broker_whose_row_is_anothers_stops_and_every_client_is_answered() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.runner.registry.update_if(
            BROKER, "1", {"epoch": 99}, Comparison("epoch", "=", log.epoch)
        )
        await log.fenced.wait()
        answered: list[LogstoreError | None] = []
        log.when_committed(log.writer.open_seq, answered.append)
        assert isinstance(answered[0], Fenced)
        with pytest.raises(Fenced):
            append(leader, 7, 0)
        assert not await log.close(5.0)


async def test_two_lives_at_once_and_the_seal_decides() -> None:
    """The first one was only stopped; what it appends after the takeover is never committed."""

    written = WrittenLog()
    async with written.life(clean=False) as first:
        old = (await first.create_topic("orders", 1, {})).leaders[0]
        await written.write(first, old, [EPOCH_MS])
        async with written.life() as second:
            new = second.topics["orders"].leaders[0]
            assert (new.leader_epoch, new.high_watermark) == (1, 1)
            with pytest.raises(Fenced):
                await written.write(first, old, [EPOCH_MS])
            await written.write(second, new, [EPOCH_MS])
            assert old.high_watermark == 1
            assert len(await read_values(second, new)) == 2
    assert kinds_of(written, 1)[-1] is SegmentKind.SEAL
    check_stored(written)


def kinds_of(written: WrittenLog, epoch: int) -> list[SegmentKind]:
    headers = [decode_header(written.objects.get(key)) for key in keys(written, CHAINS)]
    return [header.kind for header in headers if header.epoch == epoch]


async def test_many_appends_while_a_log_closes_are_all_or_nothing() -> None:
    written = WrittenLog()
    acknowledged: list[int] = []
    async with written.life(clean=False) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]

        def note(base: int, error: LogstoreError | None) -> None:
            if error is None:
                acknowledged.append(base)

        async def go_on() -> None:
            for sequence in range(50):
                base, seq = append(leader, 7, sequence)
                log.when_committed(seq, partial(note, base))
                await written.runner.clock.sleep_s(0.001)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(go_on())
            await written.runner.clock.sleep_s(0.02)
            assert await log.close(10.0)
    async with written.life() as log:
        assert log.topics["orders"].leaders[0].high_watermark > max(acknowledged)
    check_stored(written)


async def test_a_log_that_closes_on_a_full_disk_gives_up_soon() -> None:
    written = WrittenLog()
    store = NoRoomStore(written.objects)
    runner = replace(written.runner, store=store)
    async with written.life(runner=runner, clean=False) as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        store.is_full = True
        append(leader, 7, 0)
        began_s = runner.clock.monotonic_s()
        assert not await log.close(1000.0)
        assert log.has_no_room
        assert CLOSE_S <= runner.clock.monotonic_s() - began_s < 2 * CLOSE_S


class NoRoomStore(MemoryStore):
    is_full = False

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        if self.is_full:
            raise NoRoom("no room to create")
        await super().create(key, parts)


async def test_records_decode_as_they_were_sent() -> None:
    written = WrittenLog()
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS, EPOCH_MS + 5])
        chunk = log.read_in_memory(leader, 1, 2, 10)
        assert chunk is not None
        records = decode_records(b"".join(chunk.buffers), max_bytes=1000)
        assert [record.timestamp for record in records] == [EPOCH_MS, EPOCH_MS + 5]


class LateTopicRows:
    """A registry that has written a topic's row long before it says so."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def __getattr__(self, name: str) -> object:
        return getattr(self._registry, name)

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        await self._registry.put_if(pk, sk, row, *conditions)
        if pk == TOPIC:
            await self._clock.sleep_s(EVERYTHING_S * 2)


async def test_a_creation_ends_also_when_the_watch_was_faster_to_lead() -> None:
    written = WrittenLog()
    late: Any = LateTopicRows(written.runner.registry, written.runner.clock)
    async with written.life(runner=replace(written.runner, registry=late)) as log:
        async with asyncio.timeout(EVERYTHING_S * 3):
            topic = await log.create_topic("orders", 1, {})

        await written.write(log, topic.leaders[0], [EPOCH_MS])


async def test_a_checkpoint_of_many_producers_leaves_the_loop_to_others_between_slices() -> None:
    """Batches that come between slices are acknowledged there, and are not in it."""

    written = WrittenLog(checkpoint_segments=1000)
    async with written.life() as log:
        leader = (await log.create_topic("orders", 1, {})).leaders[0]
        await written.write(log, leader, [EPOCH_MS])
        for producer in range(4 * SLICE_PRODUCERS):
            leader.epoch_range.state.apply_batch(producer, 0, 0, 0, 0, 0, EPOCH_MS)
        seq = log.writer.open_seq
        log.writer.checkpoints.begin()
        turns = 0
        while not keys(written, CHECKPOINTS):
            written.append(leader, [EPOCH_MS], producer_id=10**9 + turns, producer_epoch=0,
                           base_sequence=0)  # fmt: skip
            await log.runner.clock.sleep_s(0)
            turns += 1
        assert turns > 4
        front = await log.runner.run(read_chain_at(log.cluster_id, log.epoch, seq))
        assert len(front.epoch_ranges[leader.key].state.producers) == 4 * SLICE_PRODUCERS
        assert len(leader.epoch_range.state.producers) == 4 * SLICE_PRODUCERS + turns
