"""A Spark sink beside producers, while its leaders die, stall, move and are taken over.

Worlds of their own: those of other tests are not changed by it.
"""

import asyncio
import random
from collections import Counter

import pytest

from logstore.testing.process_loop import simulate
from tests.simulation.admins import Admin, Deleter, Mover
from tests.simulation.alarms import HeardAlarms
from tests.simulation.harms import do_harm, start_all
from tests.simulation.kafka import Client
from tests.simulation.plan import draw_cluster_plan
from tests.simulation.readers import Reader
from tests.simulation.sink import SinkDriver
from tests.simulation.story import create_main, heal, producers_of, read_everything
from tests.simulation.world import LIMIT_S, LIVENESS_S, World

MUST_BE_SEEN = (
    "adopt: ADOPTED",
    "adopt: ALREADY",
    "adopt: NOT_LEADER",
    "adopt: BUSY",
    "sink asked again",
    "staged objects swept",
)


def play_with_sink(seed: int) -> World:
    world = World(seed, draw_cluster_plan(random.Random(f"sink {seed}")))
    with HeardAlarms(world.hear_alarm):
        simulate(_play(world), limit_s=LIMIT_S)
    return world


async def _play(world: World) -> None:
    try:
        await _story(world)
    finally:
        world.end()


async def _story(world: World) -> None:
    await world.create()
    await start_all(world)
    admin = Admin(world)
    await create_main(world, admin)
    producers, sink = producers_of(world), SinkDriver(world)
    clients: list[Client] = [*producers, sink, admin, Reader(world, "reader 0"), Mover(world)]
    if world.plan.grace_s:
        clients.append(Deleter(world))
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(client.run())
        await do_harm(world)
        await heal(world, producers)
        if not await world.until(lambda: sink.is_done, LIVENESS_S):
            world.violate("liveness: the sink does not finish")
    await read_everything(world)
    world.check(all_was_read=True)


@pytest.mark.slow
@pytest.mark.seeds(6)
def test_a_sink_is_written_exactly_once(seed: int) -> None:
    world = play_with_sink(seed)
    assert world.violations == []
    assert world.history.violations == []


@pytest.mark.slow
def test_the_worlds_of_a_sink_see_what_matters() -> None:
    seen: Counter[str] = Counter()
    for seed in range(3):
        seen += play_with_sink(seed).seen
    assert not [name for name in MUST_BE_SEEN if not seen[name]]
