"""A broker dies before its step k, for every k there is: serving, stopping, starting, taking over.

The stores are in good health here: what the sweep looks for is order, not bad luck.
"""

import asyncio
from typing import Literal

import pytest

from logstore.epoch.log import LogSettings
from logstore.epoch.writer import ChainLimits
from logstore.protocol.chain.flush import FlushSettings
from logstore.testing.process_loop import simulate
from logstore.testing.simulated_rows import RowFaults
from logstore.testing.simulated_store import StoreFaults
from tests.simulation.admins import Admin
from tests.simulation.clients import Producer
from tests.simulation.plan import KiB, Plan
from tests.simulation.readers import Reader
from tests.simulation.story import heal, read_everything
from tests.simulation.world import World, is_gone

Victim = Literal["serving", "stopping", "starting"]

PARTS = 3
SERVED_S = 1.5
"""All kinds of steps of a broker that serves come in this time, and from then on come again."""
TRIM_PERIOD_S = 0.5
STEPS_MIN: dict[Victim, int] = {"serving": 200, "stopping": 8, "starting": 100}
CALM = Plan(
    store=StoreFaults(latency_max_s=0.005),
    rows=RowFaults(latency_max_s=0.003),
    settings=LogSettings(
        flush=FlushSettings(interval_s=0.03, segment_bytes_max=64 * KiB),
        limits=ChainLimits(
            checkpoint_segments=4,
            inline_bytes_max=60,
            chunk_bytes_max=100,
            arena_bytes=128 * KiB,
        ),
        cache_bytes_max=4 * KiB,
    ),
    partitions=2,
    idempotent=2,
    plain=0,
    crowd=0,
    padding_bytes=0,
    faults_s=0.0,
    flips_bits=False,
)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("victim", ["serving", "stopping", "starting"])
def test_a_crash_before_any_step_loses_nothing(victim: Victim, part: int) -> None:
    step = part
    while True:
        world = World(step, CALM)
        died = simulate(_play(world, victim, step))
        assert not world.violations, f"step={step}"
        if not died:
            break
        step += PARTS
    assert step > STEPS_MIN[victim], "the sweep ends before it has begun"


async def _play(world: World, victim: Victim, step: int) -> bool:
    """Whether the victim died; it does not when `step` is beyond its last."""
    await world.create()
    world.trim_period_s = TRIM_PERIOD_S
    first = world.spawn(dies_at_step=step if victim == "serving" else None)
    await world.until(lambda: first.is_serving or is_gone(first), 10.0)
    producers = [Producer(world, f"p{number}") for number in range(2)]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_create_topics(world))
        for client in (*producers, Reader(world)):
            tasks.create_task(client.run())
        await world.until(lambda: is_gone(first), SERVED_S)
        last = first
        if victim == "stopping":
            first.process.dies_at_step = first.process.step_count + step
            first.stop()
        elif victim == "starting":
            first.process.kill()
            last = world.spawn(dies_at_step=step)
            await world.until(lambda: last.is_serving or is_gone(last), 10.0)
        if victim != "serving":
            await world.until(lambda: is_gone(last), 1.0)
        died = last.process.is_dead
        await heal(world, producers)
    await read_everything(world)
    world.check()
    world.end()
    return died


async def _create_topics(world: World) -> None:
    """Until one is there for certain; whatever a crash left behind of it."""
    admin = Admin(world)
    number = 0
    while not await admin.create(f"topic-{number}", world.plan.partitions):
        number += 1
        await world.clock.sleep_s(0.1)
