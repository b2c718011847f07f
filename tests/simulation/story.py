"""The story of one seed: clients at work, harm done to the broker, then everything healed."""

import asyncio
from dataclasses import replace

from logstore.errors import LogstoreError
from logstore.testing.history import Partition
from logstore.testing.process_loop import simulate
from logstore.testing.simulated_broker import SimulatedBroker
from logstore.testing.simulated_rows import RowFaults
from logstore.testing.simulated_store import StoreFaults
from tests.simulation.clients import Admin, Client, Producer, Reader, crowd_in
from tests.simulation.plan import Plan
from tests.simulation.world import BROKER_ID, LIMIT_S, LIVENESS_S, World, is_gone

HARMS = {
    "kill": 5,
    "kill at a step": 5,
    "kill while a put is late": 2,
    "pause": 2,
    "pause and twin": 3,
    "twin": 1,
    "clean stop": 2,
    "fall ill": 1,
}


def play(seed: int, plan: Plan | None = None) -> World:
    """The world as it ended. Raises nothing for what the log did wrong: see `violations`."""
    world = World(seed, plan)
    simulate(_play(world), limit_s=LIMIT_S)
    return world


async def _play(world: World) -> None:
    await world.create()
    await world.start()
    admin = Admin(world)
    while not world.live_topics:
        try:
            await admin.create("main", world.plan.partitions)
        except (LogstoreError, TimeoutError):
            if world.primary is None or is_gone(world.primary):
                await world.start()
            if await _exists_already(world):
                break
    producers = [
        Producer(world, f"p{number}", 1_000 + number if number < world.plan.idempotent else None)
        for number in range(world.plan.idempotent + world.plan.plain)
    ]
    async with asyncio.TaskGroup() as tasks:
        for client in (*producers, Reader(world), Reader(world), admin):
            tasks.create_task(client.run())
        if world.plan.crowd:
            tasks.create_task(_crowds(world))
        await _do_harm(world)
        await heal(world, producers)
    await read_everything(world)
    world.check()


async def _exists_already(world: World) -> bool:
    """The answer to a creation was lost; the topic may be there all the same."""
    life = world.primary
    topic = None if life is None or life.log is None else life.log.topics.get("main")
    if topic is not None:
        world.live_topics[topic.topic_id] = (topic.name, topic.partition_count)
    return topic is not None


async def _crowds(world: World) -> None:
    client = Client(world)
    while not world.is_healed:
        await world.clock.sleep_s(world.chance.uniform(0, 10))
        topic_id, (_, partitions) = next(iter(world.live_topics.items()))
        partition = Partition(topic_id, world.chance.randrange(partitions))
        await crowd_in(client, partition, world.plan.crowd)


async def _do_harm(world: World) -> None:
    chance = world.chance
    until_s = world.clock.monotonic_s() + world.plan.faults_s
    while world.clock.monotonic_s() < until_s:
        await world.clock.sleep_s(chance.choice((0.0, 0.3, 3.0)) * chance.random())
        primary = world.primary
        if primary is None or is_gone(primary):
            if primary is not None:
                world.judge_end(primary)
            await world.start()
            continue
        harm = chance.choices(list(HARMS), list(HARMS.values()))[0]
        world.trace(f"harm: {harm}")
        world.seen[harm] += 1
        await _harm(world, harm)


async def _harm(world: World, harm: str) -> None:
    chance, primary = world.chance, world.primary
    assert primary is not None
    match harm:
        case "kill":
            primary.process.kill()
            await world.start()
        case "kill at a step":
            primary.process.dies_at_step = primary.process.step_count + chance.randrange(1, 200)
            await world.until(lambda: is_gone(primary), 5.0)
        case "kill while a put is late":
            await _kill_while_a_put_is_late(world, primary)
        case "pause":
            primary.process.stop_for(chance.uniform(0.1, 2.5))
        case "pause and twin":
            primary.process.stop_for(chance.uniform(3.0, 12.0))
            await world.start(new_lock=True)
        case "twin":
            await world.start()
        case "clean stop":
            primary.stop()
            if not await world.until(lambda: is_gone(primary), 60.0):
                primary.process.kill()
            world.judge_end(primary)
            world.seen["closed cleanly"] += primary.closed_cleanly
        case "fall ill":
            await _ill_for(world, chance.uniform(0.5, 8.0))
        case _:
            raise AssertionError(harm)


async def _kill_while_a_put_is_late(world: World, primary: SimulatedBroker) -> None:
    """What it handed to the store lands when others have taken over."""
    store, before = world.stores[primary.broker], world.seen["put late"]
    usual, store.faults = store.faults, replace(store.faults, put_late=0.7)
    await world.until(lambda: world.seen["put late"] > before or is_gone(primary), 5.0)
    await world.clock.sleep_s(world.chance.choice((0.0, 0.2)))
    primary.process.kill()
    store.faults = usual
    await world.start()


async def _ill_for(world: World, seconds: float) -> None:
    """Store or registry go away altogether for a while."""
    store, rows = world.stores[BROKER_ID], world.registries[BROKER_ID]
    if world.chance.random() < 0.5:
        away = StoreFaults(put_lost=0.6, throttled=0.4, get_failed=0.6)
        healthy, store.faults = store.faults, away
        await world.clock.sleep_s(seconds)
        store.faults = healthy
    else:
        rows_away = RowFaults(throttled=0.5, lost=0.5)
        rows_healthy, rows.faults = rows.faults, rows_away
        await world.clock.sleep_s(seconds)
        rows.faults = rows_healthy


async def heal(world: World, producers: list[Producer]) -> None:
    """The liveness phase: one more start, and everybody finishes."""
    world.trace("healed")
    world.heal()
    for life in world.lives:
        world.judge_end(life)
        life.process.kill()
    await world.start()
    if not await world.until(lambda: all(p.is_done for p in producers), LIVENESS_S):
        left = [p.name for p in producers if not p.is_done]
        world.violate(f"liveness: producers do not finish: {left}")
        raise AssertionError(world.violations)


async def read_everything(world: World) -> None:
    reader = Reader(world)
    for topic_id, (_, partitions) in world.live_topics.items():
        for number in range(partitions):
            try:
                await reader.read_all(Partition(topic_id, number))
            except (LogstoreError, TimeoutError) as error:
                world.violate(f"liveness: cannot read: {error!r}")
