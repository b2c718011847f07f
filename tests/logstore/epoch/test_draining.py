"""Brokers that stop, one alone and several at once: their partitions go to those that stay."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from logstore.epoch.draining import Successor
from logstore.epoch.log import Log
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.partition_row import PartitionRow
from logstore.protocol.rows.metadata import read_partition_row
from logstore.testing.virtual_loop import run
from tests.logstore.held_store import HeldStore
from tests.logstore.waits import until
from tests.logstore.written import WrittenLog

PARTITIONS = 4
LONG_S = 60.0


def lowest_of(log: Log) -> Callable[[], Successor]:
    """Of the other brokers that serve, the first: brokers 1 and 2 choose each other."""

    def successors() -> Successor:
        others = [
            broker
            for broker, row in log.live_brokers().items()
            if broker != log.me.broker and row.status is BrokerStatus.SERVING
        ]
        return lambda topic, partition: min(others, default=None)

    return successors


async def know_each_other(logs: Sequence[Log]) -> None:
    await until(lambda: all(len(log.live_brokers()) == len(logs) for log in logs), LONG_S)


async def rows_of(written: WrittenLog, topic_id: bytes) -> list[PartitionRow]:
    steps = [read_partition_row(topic_id, number) for number in range(PARTITIONS)]
    rows = [await written.runner.run(one) for one in steps]
    return [row for row in rows if row is not None]


async def test_brokers_that_stop_at_once_hand_nothing_to_each_other() -> None:
    written = WrittenLog()
    async with AsyncExitStack() as stack:
        one, two, three = [
            await stack.enter_async_context(written.life(broker=number)) for number in (1, 2, 3)
        ]
        await know_each_other((one, two, three))
        topics = [
            await log.create_topic(f"of-{log.me.broker}", PARTITIONS, {}) for log in (one, two)
        ]
        async with asyncio.TaskGroup() as tasks:
            drains = [tasks.create_task(log.drain(LONG_S, lowest_of(log))) for log in (one, two)]
        assert [one.result() for one in drains] == [True, True]
        for topic in topics:
            rows = await rows_of(written, topic.topic_id)
            assert [row.broker for row in rows] == [3] * PARTITIONS
            assert {row.leader_epoch for row in rows} == {1}, "handed over more than once"


async def drain_one_after_the_other_has_chosen_it(leads_too: bool) -> None:
    """Broker 2 has chosen broker 1, and waits for its put, when that begins to drain."""
    written = WrittenLog()
    store = HeldStore(written.objects)
    runners = {2: replace(written.runner, store=store)}
    async with AsyncExitStack() as stack:
        one, two, three = [
            await stack.enter_async_context(written.life(broker=number, runner=runners.get(number)))
            for number in (1, 2, 3)
        ]
        await know_each_other((one, two, three))
        topics = [await two.create_topic("orders", PARTITIONS, {})]
        if leads_too:
            topics.append(await one.create_topic("mine", PARTITIONS, {}))
        store.hold()
        async with asyncio.TaskGroup() as tasks:
            second = tasks.create_task(two.drain(LONG_S, lowest_of(two)))
            await until(lambda: two.topics["orders"].leaders[0].is_released, LONG_S)
            first = tasks.create_task(one.drain(LONG_S, lowest_of(one)))
            await until(lambda: leads_too or first.done(), LONG_S)
            store.let_go()
        assert [first.result(), second.result()] == [True, True]
        for topic in topics:
            rows = await rows_of(written, topic.topic_id)
            assert [row.broker for row in rows] == [3] * PARTITIONS


def test_a_broker_that_has_drained_is_given_nothing_more() -> None:
    run(drain_one_after_the_other_has_chosen_it(leads_too=False))


def test_what_is_given_to_a_broker_while_it_drains_goes_on_to_one_that_stays() -> None:
    run(drain_one_after_the_other_has_chosen_it(leads_too=True))


async def test_without_another_broker_everything_stays() -> None:
    written = WrittenLog()
    async with written.life(broker=1) as one:
        topic = await one.create_topic("orders", PARTITIONS, {})

        assert await one.drain(LONG_S, lowest_of(one)) is False
        assert [row.broker for row in await rows_of(written, topic.topic_id)] == [1] * 4
