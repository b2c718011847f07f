"""Offsets are deleted once a record says that their topic is, and never for lack of a row."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from broker.groups.coordinator import OFFSETS_AT_ONCE, Coordinator
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.offsets import OffsetCommit
from broker.groups.deleted_topics import LOOKS_MAX, WAIT_MAX_S, DeletedTopics
from logstore.formats.topic_record import TopicRecord
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.protocol.topics.life import put_record
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import VirtualClock, run
from tests.broker.groups.running_coordinator import Bench, MemoryPartition

OLD, NEW, OTHER = b"1" * 16, b"2" * 16, b"3" * 16


@dataclass
class Life:
    name: str
    topic_id: bytes


class Scene:
    """A coordinator, the records of topics, and the ids that names have in the catalog."""

    def __init__(self, bench: Bench, coordinator: Coordinator) -> None:
        self.bench = bench
        self.coordinator = coordinator
        self.catalog: dict[str, bytes] = {}
        clock, rng = VirtualClock(), random.Random(0)
        store = MemoryStore(MemoryObjects(clock))
        registry = RetryingRegistry(MemoryRows(), lambda: str(rng.random()), clock, rng)
        self.runner = StepRunner(store, registry, clock, rng, lambda: b"")
        self.deleted = DeletedTopics(
            self.runner,
            clock,
            start=bench.start,
            id_of=self.catalog.get,
            loaded=lambda: [self.coordinator],
        )

    def commit(self, name: str, topic_id: bytes, count: int = 1, group: str = "g") -> None:
        offsets = [OffsetCommit((name, n), topic_id, 1, -1, "") for n in range(count)]
        self.coordinator.commit(group, offsets, -1)

    async def record_deletion(self, name: str, topic_id: bytes) -> None:
        row = TopicRow(topic_id, TopicStatus.DELETED, 1, {}, version=2)
        assert await self.runner.run(put_record(TopicRecord(name, row)))

    def topics(self, group: str = "g") -> set[str]:
        known = self.coordinator.states.get(group)
        return set() if known is None else {name for name, _ in known.offsets}


async def wait(seconds: float) -> None:
    await VirtualClock().sleep_s(seconds)


Story = Callable[[Scene], Awaitable[None]]


def play(story: Story) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            bench = Bench(MemoryPartition(), tasks, GroupLimits(initial_delay_ms=0))
            await story(Scene(bench, await bench.loaded()))

    run(main())


def test_offsets_go_when_the_record_says_so_and_stay_gone_after_a_restart() -> None:
    async def story(scene: Scene) -> None:
        scene.commit("t", OLD, OFFSETS_AT_ONCE + 1)
        scene.commit("kept", NEW)
        scene.commit("t", OLD, group="only")
        scene.deleted.dropped(Life("t", OLD))
        await wait(1.0)
        assert scene.topics() == {"t", "kept"}, "the record is written after the topic has gone"
        await scene.record_deletion("t", OLD)
        await wait(2.0)

        assert scene.topics() == {"kept"}
        scene.coordinator = await scene.bench.loaded()
        assert scene.topics() == {"kept"}
        assert scene.coordinator.states.get("only") is None

    play(story)


def test_offsets_of_a_topic_that_only_lacks_its_rows_stay() -> None:
    async def story(scene: Scene) -> None:
        scene.commit("t", OLD)
        scene.deleted.dropped(Life("t", OLD))
        await scene.record_deletion("other", NEW)
        await wait(LOOKS_MAX * WAIT_MAX_S)

        assert scene.topics() == {"t"}

    play(story)


def test_a_coordinator_that_starts_asks_about_topics_that_are_not_served() -> None:
    async def story(scene: Scene) -> None:
        scene.commit("t", OLD)
        scene.commit("again", OTHER)
        await scene.record_deletion("t", OLD)
        scene.catalog["again"] = NEW
        scene.coordinator = await scene.bench.loaded()
        await scene.deleted.suspect([scene.coordinator])
        await wait(1.0)

        assert scene.topics() == {"again"}, "no record says that its old life was deleted"

    play(story)


def test_the_next_life_keeps_its_offsets() -> None:
    async def story(scene: Scene) -> None:
        scene.commit("t", OLD, 2)
        await scene.record_deletion("t", OLD)
        scene.deleted.dropped(Life("t", OLD))
        scene.catalog["t"] = NEW
        scene.commit("t", NEW, 1)
        await wait(1.0)
        group = scene.coordinator.states.get("g")

        assert group is not None
        assert {place: one.topic_id for place, one in group.offsets.items()} == {("t", 0): NEW}

    play(story)
