"""The story of one seed with both tiers: all are at work, harm is done, then all is healed."""

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from logstore.errors import LogstoreError
from logstore.testing.history import Partition
from logstore.testing.process_loop import simulate
from tests.simulation.admins import Admin, Deleter, Mover
from tests.simulation.harms import do_harm, start_all
from tests.simulation.plan import Plan
from tests.simulation.readers import Reader
from tests.simulation.story import create_main, heal, producers_of
from tests.simulation.tiers.clock_setter import Clocks
from tests.simulation.tiers.collector import Collector
from tests.simulation.tiers.compaction import Scheduler, compact_all
from tests.simulation.tiers.disaster import Copies, delete_again, lose_registry
from tests.simulation.tiers.fsck import Fsck
from tests.simulation.tiers.owner import Owner
from tests.simulation.tiers.plan import TierPlan, draw_tier_plans
from tests.simulation.tiers.spark_batch import SparkBatch
from tests.simulation.tiers.spark_stream import SparkStream
from tests.simulation.tiers.stage import staged
from tests.simulation.tiers.suspends import Suspends
from tests.simulation.tiers.taking_back import TakingBack
from tests.simulation.tiers.world import TierWorld
from tests.simulation.world import LIMIT_S

LOOK_AT_TABLES_S = 20.0
"""Longer than a broker goes without a look at a table."""


class Actor(Protocol):
    """At work until all is healed."""

    async def run(self) -> None: ...


def play_tiers(seed: int, plans: tuple[Plan, TierPlan] | None = None) -> TierWorld:
    """The world as it ended. Raises nothing for what the log did wrong: see `violations`."""
    plan, tiers = plans or draw_tier_plans(random.Random(seed))
    world = TierWorld(seed, plan, tiers)
    with staged(world):
        simulate(_play(world), limit_s=LIMIT_S)
    return world


async def _play(world: TierWorld) -> None:
    try:
        await _tell(world)
    finally:
        world.end()


async def _tell(world: TierWorld) -> None:
    await world.create()
    await start_all(world)
    admin = Admin(world)
    await create_main(world, admin)
    producers = producers_of(world)
    streams = [SparkStream(world, f"stream {number}") for number in range(world.tiers.streams)]
    actors: list[Actor] = [
        *streams,
        Copies(world),
        Fsck(world),
        *producers,
        admin,
        Reader(world, "reader 0"),
        *(Scheduler(world, str(number)) for number in range(world.tiers.compactors)),
        *(SparkBatch(world, f"batch {number}") for number in range(world.tiers.batches)),
    ]
    async with asyncio.TaskGroup() as tasks:
        for actor in (*actors, *_by_plan(world)):
            tasks.create_task(actor.run())
        await do_harm(world)
        if world.tiers.loses_registry:
            await lose_registry(world)
            await do_harm(world)
        await heal(world, producers)
    if world.disasters:
        await delete_again(world)
    await _read_everything(world)
    for stream in streams:
        await stream.finish()
    world.count_trimming()
    world.check(all_was_read=True)


def _by_plan(world: TierWorld) -> list[Actor]:
    """Those that only some seeds have."""
    tiers = world.tiers
    actors: list[tuple[object, Callable[[TierWorld], Actor]]] = [
        (tiers.collects, Collector),
        (tiers.clocks_jump, Clocks),
        (tiers.takes_back, TakingBack),
        (tiers.suspends, Suspends),
        (tiers.owner_pause_s, Owner),
        (tiers.deletes, Deleter),
        (world.plan.moves, Mover),
    ]
    return [actor(world) for is_planned, actor in actors if is_planned]


async def _read_everything(world: TierWorld) -> None:
    """From leaders and without brokers, before and after everything has moved to tables."""
    reader, batch = Reader(world), SparkBatch(world, "last batch")
    for is_moved in (False, True):
        if is_moved and not await compact_all(world):
            world.violate("liveness: compaction does not succeed")
        if is_moved and world.edits:
            await world.clock.sleep_s(LOOK_AT_TABLES_S)
            for edit in world.edits:
                world.history.forbid(edit.partition, edit.offsets)
        for topic_id, (_, partitions) in world.live_topics.items():
            if not await batch.read_once(topic_id):
                world.violate("liveness: Spark cannot read everything")
            for number in range(partitions):
                try:
                    await reader.read_all(Partition(topic_id, number))
                except (LogstoreError, TimeoutError) as error:
                    world.violate(f"liveness: cannot read: {error!r}")
