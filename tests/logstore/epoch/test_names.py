"""A name is served as one life of a topic: changes wait for every broker, late answers for none."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from logstore.epoch.confirmations import CONFIRM_S, NotKnownEverywhere
from logstore.epoch.log import Log
from logstore.formats.chain_row import CHAIN, ChainStatus, chain_sk
from logstore.objects.memory import MemoryStore
from logstore.ports.registry import Row
from logstore.protocol.chain.seal import mark_sealed, seal_chain
from logstore.protocol.topics.life import UnknownTopic
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner, outcome_of
from logstore.testing.virtual_loop import VirtualClock
from tests.logstore.written import WrittenLog

A_WHILE_S = 5.0


class HeldReads:
    """Rows whose reads wait while they are held: the broker does not notice what changes."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.may_read = asyncio.Event()
        self.may_read.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    async def get(self, pk: str, sk: str) -> Row | None:
        await self.may_read.wait()
        row: Row | None = await self._rows.get(pk, sk)
        return row

    async def query(self, pk: str, *rest: Any, **more: Any) -> Sequence[tuple[str, Row]]:
        await self.may_read.wait()
        rows: Sequence[tuple[str, Row]] = await self._rows.query(pk, *rest, **more)
        return rows


class CountedLooks:
    """Rows that count the queries of all chains."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    async def query(self, pk: str, *rest: Any, **more: Any) -> Sequence[tuple[str, Row]]:
        self.count += pk == CHAIN
        rows: Sequence[tuple[str, Row]] = await self._rows.query(pk, *rest, **more)
        return rows


class HeldAnswer(HeldReads):
    """The answer to the next query of some partition rows comes when it is let go."""

    def __init__(self, rows: Any) -> None:
        super().__init__(rows)
        self.is_next_held = False
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()

    async def query(self, pk: str, *rest: Any, **more: Any) -> Sequence[tuple[str, Row]]:
        rows = await super().query(pk, *rest, **more)
        if self.is_next_held and pk.startswith("partition/") and rest + tuple(more):
            self.is_next_held = False
            self.reached.set()
            await self.let_go.wait()
        return rows


def runner_on(written: WrittenLog, rows: Any) -> StepRunner:
    rng, clock = random.Random(7), VirtualClock()
    registry = RetryingRegistry(rows, lambda: f"{rng.getrandbits(64)}", clock, rng)
    store = MemoryStore(written.objects)
    return StepRunner(store, registry, clock, rng, lambda: rng.randbytes(16))


@asynccontextmanager
async def two_brokers(
    written: WrittenLog, rows: Any, rows_of_one: Any = None
) -> AsyncIterator[tuple[Log, Log, asyncio.TaskGroup]]:
    """Broker 1, and broker 2 that reads `rows`; they know each other."""
    runner = None if rows_of_one is None else runner_on(written, rows_of_one)
    async with (
        written.life(broker=1, clean=False, runner=runner) as one,
        written.life(broker=2, clean=False, runner=runner_on(written, rows)) as two,
        asyncio.TaskGroup() as tasks,
    ):
        while min(len(one.live_brokers()), len(two.live_brokers())) < 2:
            await wait(0.1)
        yield one, two, tasks


async def wait(seconds: float) -> None:
    await VirtualClock().sleep_s(seconds)


async def known(log: Log, name: str, topic_id: bytes) -> None:
    while name not in log.topics or log.topics[name].topic_id != topic_id:
        await wait(0.05)


async def test_a_deletion_returns_when_the_other_broker_knows_it() -> None:
    written = WrittenLog()
    rows = HeldReads(written.rows)
    async with two_brokers(written, rows) as (one, two, tasks):
        topic = await one.create_topic("orders", 1, {})
        await known(two, "orders", topic.topic_id)
        rows.may_read.clear()
        deleting = tasks.create_task(one.delete_topic("orders"))
        await wait(A_WHILE_S)
        assert not deleting.done()
        assert "orders" not in one.topics, "it refuses the old life itself"
        assert "orders" in two.topics
        rows.may_read.set()
        await deleting

        assert "orders" not in two.topics


async def test_a_name_has_no_new_life_while_any_broker_serves_the_old_one() -> None:
    written = WrittenLog()
    rows = HeldReads(written.rows)
    async with two_brokers(written, rows) as (one, two, tasks):
        topic = await one.create_topic("orders", 1, {})
        await known(two, "orders", topic.topic_id)
        rows.may_read.clear()
        deleting = tasks.create_task(one.delete_topic("orders"))
        await wait(1.0)
        creating = tasks.create_task(one.create_topic("orders", 1, {}))
        await wait(A_WHILE_S)
        assert "orders" not in one.topics
        assert two.topics["orders"].topic_id == topic.topic_id
        rows.may_read.set()
        await deleting
        again = await creating

        assert again.topic_id != topic.topic_id
        assert two.topics["orders"].topic_id == again.topic_id


async def test_a_silent_broker_is_waited_for_until_its_chain_is_sealed() -> None:
    written = WrittenLog()
    rows = HeldReads(written.rows)
    async with two_brokers(written, rows) as (one, two, tasks):
        topic = await one.create_topic("orders", 1, {})
        await known(two, "orders", topic.topic_id)
        rows.may_read.clear()
        deleting = tasks.create_task(one.delete_topic("orders"))
        await wait(1.0)
        sealed = await one.runner.run(seal_chain(one.cluster_id, two.epoch, 1))
        row = await written.rows.get(CHAIN, chain_sk(two.epoch))
        assert row is not None
        assert row["status"] == ChainStatus.FENCED.value
        await wait(1.0)
        assert not deleting.done()
        await one.runner.run(mark_sealed(two.epoch, sealed.seal))
        await deleting


async def test_a_broker_is_asked_at_once_and_its_answer_is_believed() -> None:
    written = WrittenLog()
    async with two_brokers(written, written.rows) as (one, two, _tasks):
        asked: list[tuple[int, int]] = []

        async def ask(broker: int, epoch: int, version: int) -> int:
            asked.append((broker, epoch))
            return await two.read_feed(version)

        one.ask_others_by(ask)
        topic = await one.create_topic("orders", 1, {})
        await known(two, "orders", topic.topic_id)
        began_s = VirtualClock().monotonic_s()
        await one.delete_topic("orders")

        assert asked == [(2, two.epoch)]
        assert "orders" not in two.topics
        assert VirtualClock().monotonic_s() - began_s < 0.05


async def test_a_broker_that_never_answers_is_reported_and_the_deletion_stands() -> None:
    written = WrittenLog()
    rows = HeldReads(written.rows)
    async with two_brokers(written, rows) as (one, two, _tasks):
        topic = await one.create_topic("orders", 1, {})
        await known(two, "orders", topic.topic_id)
        rows.may_read.clear()
        began_s = VirtualClock().monotonic_s()
        with pytest.raises(NotKnownEverywhere):
            await one.delete_topic("orders")
        assert VirtualClock().monotonic_s() - began_s < CONFIRM_S + 1.0
        assert "orders" not in one.topics
        rows.may_read.set()


async def test_rows_of_a_silent_broker_are_looked_at_about_once_a_second() -> None:
    written = WrittenLog()
    held, counted = HeldReads(written.rows), CountedLooks(written.rows)
    async with two_brokers(written, held, counted) as (one, two, _tasks):
        topic = await one.create_topic("orders", 1, {})
        await known(two, "orders", topic.topic_id)
        held.may_read.clear()
        before = counted.count
        with pytest.raises(NotKnownEverywhere):
            await one.delete_topic("orders")
        assert CONFIRM_S <= counted.count - before <= 2 * CONFIRM_S
        held.may_read.set()


async def test_a_growth_returns_when_the_other_broker_knows_it() -> None:
    written = WrittenLog()
    async with two_brokers(written, written.rows) as (one, two, _tasks):
        topic = await one.create_topic("orders", 1, {})
        await known(two, "orders", topic.topic_id)
        await one.create_partitions("orders", 3)

        assert two.topics["orders"].partition_count == 3


async def test_a_late_answer_to_a_creation_does_not_bring_back_the_deleted_life() -> None:
    written = WrittenLog()
    rows = HeldAnswer(written.rows)
    async with two_brokers(written, rows) as (one, two, tasks):
        rows.is_next_held = True
        creating = tasks.create_task(outcome_of(two.create_topic("orders", 1, {})))
        await rows.reached.wait()
        while "orders" not in one.topics:
            one._watch._everything_at_s = 0.0
            await wait(0.1)
        await one.delete_topic("orders")
        again = await one.create_topic("orders", 1, {})
        await known(two, "orders", again.topic_id)
        rows.let_go.set()
        assert isinstance(await creating, UnknownTopic)

        assert two.topics["orders"].topic_id == again.topic_id


async def test_a_late_answer_to_a_growth_does_not_bring_back_the_deleted_life() -> None:
    written = WrittenLog()
    async with two_brokers(written, written.rows) as (one, two, tasks):
        topic = await one.create_topic("orders", 1, {})
        await known(two, "orders", topic.topic_id)
        publish, may_publish = two.publish, asyncio.Event()

        async def late(changes: Any, *, is_urgent: bool = False) -> int | None:
            await may_publish.wait()
            return await publish(changes, is_urgent=is_urgent)

        two._feed.publish = late  # type: ignore[method-assign]
        growing = tasks.create_task(outcome_of(two.create_partitions("orders", 2)))
        await wait(1.0)
        await one.delete_topic("orders")
        again = await one.create_topic("orders", 1, {})
        await known(two, "orders", again.topic_id)
        may_publish.set()
        assert isinstance(await growing, UnknownTopic)

        assert two.topics["orders"].topic_id == again.topic_id


async def test_what_the_feed_does_not_have_is_read_for_at_a_pace() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        began_s = VirtualClock().monotonic_s()
        for _ in range(10):
            assert await log.read_feed(1 << 60) < 1 << 60

        assert VirtualClock().monotonic_s() - began_s >= 0.4


async def test_a_heartbeat_says_how_far_the_feed_is_read() -> None:
    written = WrittenLog()
    async with written.life(clean=False) as log:
        await log.create_topic("orders", 1, {})
        await wait(3.0)
        row = await written.rows.get("broker", "1")

        assert row is not None
        assert row["feed"] == log.feed_version > 0
