"""The story of one seed: clients at work, harm done to brokers, then everything healed."""

import asyncio
from dataclasses import replace

from broker.cluster.controller import Controller
from broker.cluster.settings import ControllerSettings
from logstore.config.broker import BrokerSettings
from logstore.errors import LogstoreError
from logstore.log.log import Log
from logstore.testing.history import Partition
from logstore.testing.process_loop import simulate
from logstore.testing.simulated_broker import SimulatedBroker
from logstore.testing.simulated_rows import RowFaults
from logstore.testing.simulated_store import StoreFaults
from tests.simulation.clients import Admin, Client, Mover, Producer, Reader, crowd_in
from tests.simulation.plan import Plan
from tests.simulation.world import LIMIT_S, LIVENESS_S, World, is_gone

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
CLUSTER_HARMS = {
    **HARMS,
    "cut off from the registry": 2,
    "cut off from the store": 1,
    "rolling restart": 1,
    "kill all": 1,
}


def play(seed: int, plan: Plan | None = None) -> World:
    """The world as it ended. Raises nothing for what the log did wrong: see `violations`."""
    world = World(seed, plan)
    simulate(_play(world), limit_s=LIMIT_S)
    return world


async def _play(world: World) -> None:
    await world.create()
    if len(world.brokers) > 1:
        world.attach = attach_controller
    await _start_all(world)
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
        if world.plan.moves:
            tasks.create_task(Mover(world).run())
        if world.plan.crowd:
            tasks.create_task(_crowds(world))
        await _do_harm(world)
        await heal(world, producers)
    await read_everything(world)
    world.check()


async def _start_all(world: World) -> None:
    await asyncio.gather(*(world.start(broker) for broker in world.brokers))


def attach_controller(log: Log, tasks: asyncio.TaskGroup) -> None:
    """Every broker runs one; there are no sockets here, so the lease alone tells of deaths."""
    tasks.create_task(Controller(log, ControllerSettings.of(BrokerSettings())).run())


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
    harms = CLUSTER_HARMS if len(world.brokers) > 1 else HARMS
    while world.clock.monotonic_s() < until_s:
        await world.clock.sleep_s(chance.choice((0.0, 0.3, 3.0)) * chance.random())
        broker = chance.choice(world.brokers)
        primary = world.primaries[broker]
        if primary is None or is_gone(primary):
            if primary is not None:
                world.judge_end(primary)
            if len(world.brokers) == 1 or chance.random() < 0.5:
                await world.start(broker)
            continue
        harm = chance.choices(list(harms), list(harms.values()))[0]
        world.trace(f"harm: {harm} broker={broker}")
        world.seen[harm] += 1
        await _harm(world, harm, primary)


async def _harm(world: World, harm: str, primary: SimulatedBroker) -> None:
    chance, broker = world.chance, primary.broker
    match harm:
        case "kill":
            primary.process.kill()
            await _start_or_leave(world, broker)
        case "kill at a step":
            primary.process.dies_at_step = primary.process.step_count + chance.randrange(1, 200)
            await world.until(lambda: is_gone(primary), 5.0)
        case "kill while a put is late":
            await _kill_while_a_put_is_late(world, primary)
        case "pause":
            primary.process.stop_for(chance.uniform(0.1, 2.5))
        case "pause and twin":
            primary.process.stop_for(chance.uniform(3.0, 12.0))
            await _start_or_leave(world, broker, new_lock=True)
        case "twin":
            await world.start(broker)
        case "clean stop":
            await _stop(world, primary)
        case "fall ill":
            await _ill_for(world, chance.uniform(0.5, 8.0), broker)
        case _:
            await _harm_cluster(world, harm, broker)


async def _harm_cluster(world: World, harm: str, broker: int) -> None:
    chance = world.chance
    match harm:
        case "cut off from the registry":
            await _without_registry(world, chance.uniform(1.0, 10.0), broker)
        case "cut off from the store":
            await _without_store(world, chance.uniform(1.0, 10.0), broker)
        case "rolling restart":
            for one in world.brokers:
                primary = world.primaries[one]
                if primary is not None and not is_gone(primary):
                    await _stop(world, primary)
                await world.start(one)
        case "kill all":
            for life in world.lives:
                life.process.kill()
            await _start_all(world)
        case _:
            raise AssertionError(harm)


async def _start_or_leave(world: World, broker: int, *, new_lock: bool = False) -> None:
    """In a cluster the others are left alone with it, now and then."""
    if len(world.brokers) == 1 or world.chance.random() < 0.6:
        await world.start(broker, new_lock=new_lock)
    else:
        await world.clock.sleep_s(world.chance.uniform(0, 8.0))


async def _stop(world: World, primary: SimulatedBroker) -> None:
    primary.stop()
    if not await world.until(lambda: is_gone(primary), 60.0):
        primary.process.kill()
    world.judge_end(primary)
    world.seen["closed cleanly"] += primary.closed_cleanly
    world.seen["drained"] += primary.drained


async def _kill_while_a_put_is_late(world: World, primary: SimulatedBroker) -> None:
    """What it handed to the store lands when others have taken over."""
    store, before = world.stores[primary.broker], world.seen["put late"]
    usual, store.faults = store.faults, replace(store.faults, put_late=0.7)
    await world.until(lambda: world.seen["put late"] > before or is_gone(primary), 5.0)
    await world.clock.sleep_s(world.chance.choice((0.0, 0.2)))
    primary.process.kill()
    store.faults = usual
    await _start_or_leave(world, primary.broker)


async def _ill_for(world: World, seconds: float, broker: int) -> None:
    """Store or registry go away altogether for a while, for one broker."""
    if world.chance.random() < 0.5:
        await _without_store(world, seconds, broker)
    else:
        await _without_registry(world, seconds, broker)


async def _without_store(world: World, seconds: float, broker: int) -> None:
    store = world.stores[broker]
    away = StoreFaults(put_lost=0.6, throttled=0.4, get_failed=0.6)
    healthy, store.faults = store.faults, away
    await world.clock.sleep_s(seconds)
    store.faults = healthy


async def _without_registry(world: World, seconds: float, broker: int) -> None:
    rows = world.registries[broker]
    healthy, rows.faults = rows.faults, RowFaults(throttled=0.5, lost=0.5)
    await world.clock.sleep_s(seconds)
    rows.faults = healthy


async def heal(world: World, producers: list[Producer]) -> None:
    """The liveness phase: one more start, and everybody finishes."""
    world.trace("healed")
    world.heal()
    for life in world.lives:
        world.judge_end(life)
        life.process.kill()
    await _start_all(world)
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
