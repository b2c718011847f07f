"""What begins and ends leaderships here: one partition's trouble holds up no other's."""

import asyncio
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from logstore.epoch.leadership_transitions import SLICE_PARTITIONS
from logstore.epoch.log import Log, Topic
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.partition_state import PartitionState
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.registry import RowAbsent
from logstore.protocol.leading.takeover import RecoveredPartition
from logstore.protocol.rows.metadata import read_partition_row
from logstore.protocol.rows.view import RegistryUpdate
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.held_store import HeldStore
from tests.logstore.waits import until
from tests.logstore.written import WrittenLog

NO_SUCH_CHAIN = 99
LONG_S = 60.0
SOON_S = 1.0


async def put_topic(written: WrittenLog, log: Log, name: str, row: PartitionRow) -> bytes:
    """As another broker would make it, with one partition that names this broker's chain."""
    topic_id = name.encode().ljust(16, b"-")
    topic = TopicRow(topic_id, TopicStatus.LIVE, 1, {}, 1)
    await written.rows.put_if(
        partition_pk(topic_id, 0), partition_sk(topic_id, 0), row.row(), [], name
    )
    await written.rows.put_if(TOPIC, name, topic.row(), [], name)
    await log.publish([FeedChange(name, topic_id)])
    return topic_id


def is_led(log: Log, name: str) -> bool:
    return name in log.topics and bool(log.topics[name].leaders)


def led_before_by_a_chain_that_is_lost(log: Log) -> PartitionRow:
    return PartitionRow.new(1, NO_SUCH_CHAIN).taken_by(broker=1, chain=log.epoch, start=5)


async def test_a_partition_that_cannot_be_led_yet_delays_no_other() -> None:
    written = WrittenLog()
    clock = written.runner.clock
    async with written.life() as log:
        await put_topic(written, log, "stuck", led_before_by_a_chain_that_is_lost(log))
        await clock.sleep_s(LONG_S)  # by now it is tried seldom
        for number in range(10):
            name = f"sound-{number}"
            await put_topic(written, log, name, PartitionRow.new(1, log.epoch))
            await until(partial(is_led, log, name), SOON_S)
            await clock.sleep_s(1.7)
        assert not log.topics["stuck"].leaders


async def test_a_takeover_that_is_over_late_begins_no_leadership_that_has_ended() -> None:
    """Its row has been another's since, and is ours again, with a state that is yet to be read."""

    written = WrittenLog()
    async with written.life() as log:
        late = led_before_by_a_chain_that_is_lost(log)
        now = late.taken_by(broker=2, chain=NO_SUCH_CHAIN, start=6)
        now = now.taken_by(broker=1, chain=log.epoch, start=7)
        topic_id = await put_topic(written, log, "orders", now)
        await until(lambda: "orders" in log.topics, SOON_S)
        await log.lead_recovered([RecoveredPartition(topic_id, 0, late, PartitionState())])
        assert not log.topics["orders"].leaders


@pytest.mark.parametrize("broker", [1, 2])
async def test_a_new_partition_whose_row_is_there_is_led_by_the_chain_that_the_row_names(
    broker: int,
) -> None:
    """A creation died before it raised the topic's row, and its rows were taken over since."""

    written = WrittenLog()
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        chain = log.epoch if broker == 1 else NO_SUCH_CHAIN
        row = PartitionRow.new(2, NO_SUCH_CHAIN).taken_by(broker=broker, chain=chain, start=0)
        pk, sk = partition_pk(topic.topic_id, 1), partition_sk(topic.topic_id, 1)
        await written.rows.put_if(pk, sk, row.row(), [], "left")
        await log.create_partitions("orders", 3)

        assert topic.rows[1] == row
        assert 1 not in topic.leaders
        await until(lambda: 2 in topic.leaders, SOON_S)


async def test_no_other_broker_is_named_before_the_release_is_committed() -> None:
    """What was appended until then may be committed, and its next leader must know it."""

    written = WrittenLog()
    store = HeldStore(written.objects)
    async with (
        written.life(broker=2) as two,
        written.life(broker=1, runner=replace(written.runner, store=store)) as one,
    ):
        topic = await one.create_topic("orders", 1, {})
        await until(lambda: len(one.live_brokers()) == 2, SOON_S)
        store.hold()
        written.append(topic.leaders[0], [EPOCH_MS])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one.drain(LONG_S, lambda: lambda topic, number: 2))
            await written.runner.clock.sleep_s(SOON_S)
            row = await written.runner.run(read_partition_row(topic.topic_id, 0))
            assert row is not None
            assert row.chain == one.epoch
            store.let_go()
        await until(partial(is_led, two, "orders"), SOON_S)
        assert two.topics["orders"].leaders[0].log_end == 1


async def test_a_topic_of_many_partitions_is_led_a_slice_at_a_time() -> None:
    """Others have their turn in between, and nothing is led before its row is known."""

    async with WrittenLog().life() as log:
        seen = [0]
        count = 3 * SLICE_PARTITIONS + 1
        loop = asyncio.get_running_loop()

        def look() -> None:
            seen.append(len(log.topics["wide"].leaders))
            if seen[-1] < count:
                loop.call_soon(look)

        log.on_change(lambda _: look() if seen == [0] else None)
        topic = await log.create_topic("wide", count, {})
        assert len(topic.leaders) == count
        assert max(now - before for before, now in pairwise(seen)) == SLICE_PARTITIONS


async def test_a_new_partition_that_another_led_between_two_slices_is_not_led_as_if_empty() -> None:
    """Its row is ours again, with a later leader epoch: its records are those of that other."""

    async with WrittenLog().life() as log:
        count = SLICE_PARTITIONS + 1
        now = PartitionRow.new(1, log.epoch).taken_by(broker=2, chain=NO_SUCH_CHAIN, start=0)
        now = now.taken_by(broker=1, chain=log.epoch, start=6)

        def change(topic: Topic) -> None:
            key = TopicPartition(topic.topic_id, count - 1)
            if topic.leaders and topic.rows[count - 1] != now:
                log._on_update(RegistryUpdate(0, {}, {key: now}))

        log.on_change(change)
        topic = await log.create_topic("wide", count, {})
        assert topic.rows[count - 1] == now
        assert len(topic.leaders) == SLICE_PARTITIONS


async def test_a_topic_that_is_deleted_while_it_is_begun_to_be_led_is_led_no_further() -> None:
    async with WrittenLog().life() as log:
        gone = RegistryUpdate(0, {"wide": None}, {})
        log.on_change(lambda topic: None if topic.is_deleted else log._on_update(gone))
        topic = await log.create_topic("wide", 3 * SLICE_PARTITIONS, {})
        assert topic.is_deleted
        assert len(topic.leaders) == SLICE_PARTITIONS
        assert all(leader.is_retired for leader in topic.leaders.values())
        assert "wide" not in log.topics


async def test_a_row_of_a_deleted_topic_that_landed_late_makes_no_leadership_begin_twice() -> None:
    """The feed named one partition each time: that it was gone, and that it was back."""

    async with (written := WrittenLog()).life() as log:
        topic = await log.create_topic("orders", 2, {})
        await written.write(log, topic.leaders[0], [EPOCH_MS])
        key, late = TopicPartition(topic.topic_id, 1), topic.rows[1]
        log._on_update(RegistryUpdate(log.feed_version, {}, {key: None}))
        assert topic.is_deleted
        elsewhere = replace(late, chain=NO_SUCH_CHAIN)
        log._on_update(RegistryUpdate(log.feed_version, {}, {key: elsewhere}))
        await put_topic(written, log, "new", PartitionRow.new(1, log.epoch))
        await until(lambda: is_led(log, "new"), SOON_S)
        assert not is_led(log, "orders")


async def test_partitions_of_a_takeover_are_led_a_slice_at_a_time() -> None:
    async with WrittenLog().life() as log:
        count = 2 * SLICE_PARTITIONS
        led: list[int] = []
        lost = led_before_by_a_chain_that_is_lost(log)
        wide = replace(TopicRow(b"w" * 16, TopicStatus.LIVE, count, {}, 1), version=1)
        rows = {TopicPartition(b"w" * 16, n): lost for n in range(count)}
        log._catalog.apply(RegistryUpdate(0, {"taken": wide}, rows))
        taken = [RecoveredPartition(b"w" * 16, n, lost, PartitionState()) for n in range(count)]
        log.on_change(lambda topic: led.append(len(topic.leaders)))
        await log.lead_recovered(taken)
        assert led == [SLICE_PARTITIONS, count]


async def test_a_takeover_that_reports_late_takes_back_no_move_of_its_partitions() -> None:
    """Between its rows and its report others read a row, and changed it."""

    async with WrittenLog().life() as log:
        topic = await log.create_topic("orders", 1, {})
        key = TopicPartition(topic.topic_id, 0)
        taken = topic.rows[0].taken_by(broker=2, chain=NO_SUCH_CHAIN, start=0)
        moving = replace(taken, replicas=(2, 1), target=1)
        log._on_update(RegistryUpdate(log.feed_version + 1, {}, {key: moving}))

        await log.lead_recovered([RecoveredPartition(*key, taken, PartitionState())])

        assert topic.rows == [moving]


async def test_partitions_that_another_has_moved_before_their_growth_is_answered_stay_moved() -> (
    None
):
    """Its rows are there from an attempt that died, and the controller has changed them since."""

    async with WrittenLog().life() as log:
        topic = await log.create_topic("orders", 1, {})
        key = TopicPartition(topic.topic_id, 1)
        moving = replace(PartitionRow.new(1, log.epoch), replicas=(1, 2))
        place = partition_pk(topic.topic_id, 1), partition_sk(topic.topic_id, 1)
        await log.runner.registry.put_if(*place, moving.row(), RowAbsent())
        log._on_update(RegistryUpdate(log.feed_version, {}, {key: moving}))

        await log.create_partitions("orders", 2)

        assert topic.rows[1] == moving
