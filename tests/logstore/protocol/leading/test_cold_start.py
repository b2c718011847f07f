"""Brokers that start on an old copy of the registry, alone or together, change no row before one of
them has compared every chain with the rows (safety rules 4d and 12).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest

from logstore.epoch.log import Log
from logstore.errors import LogstoreError, Refused
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.keys import CHAINS, checkpoint_key, segment_key
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.protocol.leading.start import BrokerInfo, Started, start
from logstore.protocol.leading.takeover import Successor, take_over
from logstore.protocol.rows.metadata import read_partition_rows
from logstore.protocol.steps import PutRow
from logstore.registry.memory import MemoryRows
from logstore.testing.scripted import stop_before
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.restore.test_restore import copy_of, put_back
from tests.logstore.written import WrittenLog

CHECKPOINT_SEGMENTS = 4


class ReadStore(MemoryStore):
    """Notes which keys are read."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(objects)
        self.reads: list[str] = []

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        self.reads.append(key)
        return await super().get_range(key, start, length)


class BusyStore(MemoryStore):
    """Something happens just before the first read of a segment."""

    def __init__(self, objects: MemoryObjects, happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(objects)
        self._happens = [happens]

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if key.startswith(CHAINS) and self._happens:
            await self._happens.pop()()
        return await super().get_range(key, start, length)


def broker(number: int) -> BrokerInfo:
    return BrokerInfo(number, "localhost", 9091 + number, "", f"the lock of {number}")


async def started(written: WrittenLog, number: int) -> Started:
    identity = await written._identity()
    return await written.runner.run(start(identity.cluster_id, broker(number)))


async def partitions(written: WrittenLog) -> Mapping[TopicPartition, PartitionRow]:
    return await written.runner.run(read_partition_rows())


async def led_by_two(written: WrittenLog, *, is_trimmed: bool = False) -> tuple[MemoryRows, int]:
    """A registry as it was when broker 1 led `orders`; broker 2 has taken it over since.

    And the chain of broker 2. Both brokers are dead.
    """
    async with written.life(broker=1, clean=False) as one:
        topic = await one.create_topic("orders", 1, {})
        await written.write(one, topic.leaders[0], [EPOCH_MS])
        async with written.life(broker=2, clean=False) as two:
            if is_trimmed:  # so that the copy names a checkpoint, which is gone by now
                notes = await two.create_topic("notes", 1, {})
                for _ in range(2 * CHECKPOINT_SEGMENTS):
                    await written.write(two, notes.leaders[0], [EPOCH_MS])
            old = copy_of(written.rows)
            await taken_from(written, one, two)
            leader = two.topics["orders"].leaders[0]
            for _ in range(3 * CHECKPOINT_SEGMENTS if is_trimmed else 1):
                await written.write(two, leader, [EPOCH_MS])
            if is_trimmed:
                trim(written, two.epoch)
            return old, two.epoch


def trim(written: WrittenLog, epoch: int) -> None:
    """Delete all that a trim point at the last checkpoint lets go."""
    row = at_once(written.rows.get(CHAIN, chain_sk(epoch)))
    assert row is not None
    for seq in range(1, ChainRow.of(row).checkpoint):
        written.objects.delete(segment_key(epoch, seq))
        written.objects.delete(checkpoint_key(epoch, seq))


async def taken_from(written: WrittenLog, one: Log, two: Log) -> None:
    taken = await written.runner.run(
        take_over(two.cluster_id, one.epoch, 2, lambda *_: Successor(2, two.epoch))
    )
    await two.lead_recovered(taken)
    await two._flushed()


@pytest.mark.parametrize("is_trimmed", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_no_row_changes_on_an_old_copy_although_the_evidence_is_in_another_chain(
    number: int, is_trimmed: bool
) -> None:
    """The copy names broker 2 as alive, so a broker that starts takes over its own chains alone."""

    written = WrittenLog(checkpoint_segments=CHECKPOINT_SEGMENTS)
    old, _ = await led_by_two(written, is_trimmed=is_trimmed)
    put_back(written, old)
    before = await partitions(written)

    with pytest.raises(Refused, match="logstore restore"):
        await started(written, number)
    assert await partitions(written) == before


async def test_two_brokers_that_start_together_on_an_old_copy_both_refuse() -> None:
    written = WrittenLog(checkpoint_segments=CHECKPOINT_SEGMENTS)
    old, _ = await led_by_two(written)
    put_back(written, old)
    before = await partitions(written)

    outcomes = await asyncio.gather(
        started(written, 1), started(written, 2), return_exceptions=True
    )
    assert all(isinstance(outcome, Refused) for outcome in outcomes)
    assert await partitions(written) == before


@pytest.mark.parametrize("lost", ["chain", "topic", "partition"])
async def test_no_row_changes_on_half_a_copy(lost: str) -> None:
    """What is lost has to do with chain 2; the rows of topic `notes`, which chain 1 led, are there.

    Another broker's row is there too, so the one that starts does not look for half a deletion.
    """

    written = WrittenLog()
    async with written.life(broker=1, clean=False) as one:
        await one.create_topic("notes", 1, {})
        async with written.life(broker=2, clean=False) as two:
            topic = await two.create_topic("orders", 1, {})
            place = {
                "chain": (CHAIN, chain_sk(two.epoch)),
                "topic": (TOPIC, "orders"),
                "partition": (
                    partition_pk(topic.topic_id, 0),
                    partition_sk(topic.topic_id, 0),
                ),
            }[lost]
    await written.runner.registry.delete_if(*place)
    before = await partitions(written)

    with pytest.raises(Refused, match="logstore restore"):
        await started(written, 1)
    assert await partitions(written) == before


async def test_an_opening_that_was_buried_needs_no_chain_row() -> None:
    """Its maker died before it wrote the row; the next start sealed the chain at seq 1."""

    written = WrittenLog()
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
    identity = await written._identity()
    request = await stop_before(written.runner, start(identity.cluster_id, broker(1)), PutRow)
    assert request.pk == CHAIN
    first = await started(written, 1)
    buried = first.opened.epoch - 1
    assert await written.runner.registry.get(CHAIN, chain_sk(buried)) is None
    assert len((await started(written, 1)).recovered) == 1


async def test_a_broker_that_starts_beside_one_at_work_is_not_refused() -> None:
    written = WrittenLog()
    async with written.life(broker=1) as one:
        topic = await one.create_topic("orders", 1, {})
        await written.write(one, topic.leaders[0], [EPOCH_MS])
        beside = await started(written, 2)
        assert not beside.recovered
        await written.write(one, topic.leaders[0], [EPOCH_MS])
        assert not one.fenced.is_set()


async def test_what_is_led_since_the_start_began_is_no_evidence() -> None:
    """The rows are read after the chains: a leadership is in its row before it is in a chain."""

    written = WrittenLog()
    async with written.life(broker=1) as one:
        await one.create_topic("orders", 1, {})
        store = BusyStore(written.objects, lambda: one.create_topic("notes", 1, {}))
        written.runner = replace(written.runner, store=store)
        beside = await started(written, 2)
        assert sorted(beside.update.topics) == ["notes", "orders"]


async def test_a_damaged_chain_of_another_broker_keeps_none_from_starting() -> None:
    written = WrittenLog()
    async with written.life(broker=1, clean=False) as one:
        topic = await one.create_topic("orders", 1, {})
        await written.write(one, topic.leaders[0], [EPOCH_MS])
    damage(written, one.epoch)
    assert not (await started(written, 2)).recovered
    with pytest.raises(LogstoreError):
        await started(written, 1)  # its own: the takeover says what is wrong with it


def damage(written: WrittenLog, epoch: int) -> None:
    key = segment_key(epoch, 1)
    data = bytearray(written.objects.get(key))
    data[60] ^= 1
    written.objects.delete(key)
    written.objects.create(key, [bytes(data)])


async def test_what_a_start_has_read_of_its_own_chain_is_not_read_again() -> None:
    """The comparison reads each chain that is not sealed; the takeover goes on from there."""

    written = WrittenLog(checkpoint_segments=1000)
    async with written.life(clean=False) as log:
        topic = await log.create_topic("orders", 1, {})
        for _ in range(10):
            await written.write(log, topic.leaders[0], [EPOCH_MS])
    store = ReadStore(written.objects)
    written.runner = replace(written.runner, store=store)
    (one,) = (await started(written, 1)).recovered
    assert one.row.epoch_ranges[-1].start == len(written.records[TopicPartition(topic.topic_id, 0)])
    assert all(store.reads.count(segment_key(log.epoch, seq)) == 1 for seq in range(1, 11))
