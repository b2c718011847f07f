"""A creation that was answered stays, whatever removes the partition rows it had at that time."""

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from logstore.errors import ConditionFailed, LogstoreError
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_pks, partition_sk
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.protocol.rows.metadata import read_partition_rows, read_topics
from logstore.protocol.steps import (
    DeleteRow,
    DrawNonce,
    Gather,
    GetRow,
    PutRow,
    QueryRows,
    Request,
    Steps,
    UpdateRow,
)
from logstore.protocol.topics.life import RowsRemoved, create_topic
from logstore.protocol.topics.orphans import remove_orphans
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner, outcome_of
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import VirtualClock, run

CLUSTER_ID, TOPIC_ID = b"c" * 16, b"t" * 16
ROWS = {0: PartitionRow.new(1, 7), 1: PartitionRow.new(2, 8)}
SEEN = (TOPIC, *partition_pks())


class Actor:
    """Steps whose requests are made one by one, those of a `Gather` one after the other."""

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = flat(steps)
        self.outcome: Any = None
        self.request: Request | None = None
        self._go_on(lambda: next(self._steps))

    async def act(self, world: "World") -> None:
        """Up to the end of the next request that touches rows of topics or partitions."""
        while self.request is not None:
            request = self.request
            answer: Any = TOPIC_ID
            if not (isinstance(request, DrawNonce) and self is world.creator):
                answer = await outcome_of(world.runner._perform(request))
            if isinstance(answer, LogstoreError):
                self._go_on(lambda error=answer: self._steps.throw(error))  # type: ignore[misc]
            else:
                self._go_on(lambda sent=answer: self._steps.send(sent))  # type: ignore[misc]
            if isinstance(request, GetRow | QueryRows | PutRow | UpdateRow | DeleteRow):
                world.made.append(request)
                if request.pk in SEEN:
                    return

    def _go_on(self, call: Callable[[], Request]) -> None:
        self.request = None
        try:
            self.request = call()
        except StopIteration as end:
            self.outcome = end.value
        except LogstoreError as error:
            self.outcome = error


def flat(steps: Steps[Any]) -> Steps[Any]:
    request = next(steps)
    while True:
        answer: Any = []
        failed: LogstoreError | None = None
        try:
            if isinstance(request, Gather):
                for one in request.steps:
                    answer.append((yield from caught(one)))
            else:
                answer = yield request
        except LogstoreError as error:
            failed = error
        try:
            request = steps.send(answer) if failed is None else steps.throw(failed)
        except StopIteration as end:
            return end.value


def caught(steps: Steps[Any]) -> Steps[Any]:
    try:
        return (yield from flat(steps))
    except LogstoreError as error:
        return error


class World:
    def __init__(self, partitions: int) -> None:
        self.wanted = {number: ROWS[number] for number in range(partitions)}
        self.rows, clock, rng = MemoryRows(), VirtualClock(), random.Random(0)
        registry = RetryingRegistry(self.rows, lambda: str(rng.random()), clock, rng)
        self.runner = StepRunner(
            MemoryStore(MemoryObjects(clock)),
            registry,
            clock,
            rng,
            lambda: rng.randbytes(16),
        )
        self.made: list[Request] = []
        self.creator = Actor(create_topic("orders", list(self.wanted.values()), {}))

    def remover(self) -> Actor:
        return Actor(remove_orphans(CLUSTER_ID, TOPIC_ID, self.wanted))

    async def land_late(self, request: Request) -> None:
        """An attempt at a write that was given up as lost, whose repetition succeeded."""
        if isinstance(request, PutRow | UpdateRow | DeleteRow):
            with suppress(ConditionFailed):
                await self.runner._perform(request)

    async def check(self) -> None:
        """What was acknowledged is there, whole."""
        if isinstance(self.creator.outcome, LogstoreError):
            assert isinstance(self.creator.outcome, RowsRemoved)
            return
        assert list(await self.runner.run(read_topics())) == ["orders"]
        rows = await self.runner.run(read_partition_rows())
        assert rows == {(TOPIC_ID, number): row for number, row in self.wanted.items()}


def schedules(first: int, second: int) -> Iterator[tuple[bool, ...]]:
    for places in itertools.combinations(range(first + second), first):
        yield tuple(turn in places for turn in range(first + second))


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_no_order_of_a_creation_and_a_removal_undoes_what_was_answered(partitions: int) -> None:
    """From the moment on at which the partition rows are there."""

    async def scenario() -> set[bool]:
        answered = set()
        for schedule in schedules(1 + 2 * partitions, 1 + 3 * partitions):
            world = World(partitions)
            remover = world.remover()
            for _ in range(1 + partitions):
                await world.creator.act(world)
            for is_creators in schedule:
                await (world.creator if is_creators else remover).act(world)
            while world.creator.request or remover.request:
                await world.creator.act(world)
                await remover.act(world)
            await world.check()
            answered.add(isinstance(world.creator.outcome, RowsRemoved))
        return answered

    assert run(scenario()) == {True, False}


@pytest.mark.slow
async def test_nor_do_several_removals_whose_writes_land_late(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        world = World(2)
        late: list[Request] = []
        actors = [world.creator, *(world.remover() for _ in range(rng.randint(1, 3)))]
        weights = [rng.randint(1, 9) for _ in actors]
        while any(actor.request for actor in actors):
            [actor] = rng.choices(actors, weights)
            before = len(world.made)
            await actor.act(world)
            late += [one for one in world.made[before:] if rng.random() < 0.5]
            if late and rng.random() < 0.3:
                await world.land_late(late.pop(rng.randrange(len(late))))
            if rng.random() < 0.2 and len(actors) < 6:
                actors.append(world.remover())
                weights.append(rng.randint(1, 9))
        while late:
            await world.land_late(late.pop())
        await world.check()


async def test_rows_of_a_creation_that_died_are_removed_as_they_were_seen() -> None:
    world = World(2)
    for number, row in ROWS.items():
        await world.runner.run(iter_of(PutRow(*place(number), row.row(), [])))
    taken = ROWS[1].taken_by(broker=3, chain=9, start=0)
    await world.runner.run(iter_of(PutRow(*place(1), taken.row(), [])))
    ruling = await world.runner.run(remove_orphans(CLUSTER_ID, TOPIC_ID, ROWS))
    assert ruling is not None
    assert ruling.may
    assert at_once(world.rows.get(*place(0))) is None
    assert at_once(world.rows.get(*place(1))) is not None
    assert (await world.runner.run(remove_orphans(CLUSTER_ID, TOPIC_ID, ROWS))) is not None


async def test_rows_of_a_topic_that_came_after_all_stay() -> None:
    world = World(2)
    topic = TopicRow(TOPIC_ID, TopicStatus.LIVE, 2, {})
    await world.runner.run(iter_of(PutRow(TOPIC, "orders", topic.row(), [])))
    for number, row in ROWS.items():
        await world.runner.run(iter_of(PutRow(*place(number), row.row(), [])))
    assert await world.runner.run(remove_orphans(CLUSTER_ID, TOPIC_ID, ROWS)) is None
    for number, row in ROWS.items():
        there = at_once(world.rows.get(*place(number)))
        assert there is not None
        assert PartitionRow.of(there) == row


def place(number: int) -> tuple[str, str]:
    return partition_pk(TOPIC_ID, number), partition_sk(TOPIC_ID, number)


def iter_of(request: Request) -> Steps[Any]:
    return (yield request)
