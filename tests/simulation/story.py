"""The story of one seed: clients at work, harm done to brokers, then everything healed."""

import asyncio
from collections.abc import Callable
from functools import partial

from broker.cluster.controller import Controller
from broker.cluster.settings import ControllerSettings
from logstore.config.broker import BrokerSettings
from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.log.log import Log
from logstore.rows import ChainRow
from logstore.testing.history import Partition
from logstore.testing.process_loop import simulate
from logstore.trimming import Trimmer, only, sealed
from tests.simulation.admins import Admin, Deleter, Mover
from tests.simulation.clients import Client, Producer, crowd_in
from tests.simulation.direct_reader import DirectReader
from tests.simulation.harms import do_harm, start_all
from tests.simulation.plan import Plan
from tests.simulation.readers import Reader
from tests.simulation.world import LIMIT_S, LIVENESS_S, World, is_gone

TRIM_PERIOD_S = 3.0
DIRECT_READS_MAX = 1_000


def play(seed: int, plan: Plan | None = None) -> World:
    """The world as it ended. Raises nothing for what the log did wrong: see `violations`."""
    world = World(seed, plan)
    simulate(_play(world), limit_s=LIMIT_S)
    return world


async def _play(world: World) -> None:
    await world.create()
    if len(world.brokers) > 1:
        world.attach = partial(attach, world)
    await start_all(world)
    admin = Admin(world)
    await create_main(world, admin)
    producers = [
        Producer(world, f"p{number}", 1_000 + number if number < world.plan.idempotent else None)
        for number in range(world.plan.idempotent + world.plan.plain)
    ]
    async with asyncio.TaskGroup() as tasks:
        for client in (*producers, admin, *_others(world)):
            tasks.create_task(client.run())
        if world.plan.crowd:
            tasks.create_task(_crowds(world))
        await do_harm(world)
        await heal(world, producers)
    await read_everything(world)
    world.check(all_was_read=True)


async def create_main(world: World, admin: Admin) -> None:
    """The topic that is there from the beginning."""
    while not world.live_topics:
        try:
            await admin.create("main", world.plan.partitions)
        except (LogstoreError, TimeoutError):
            if world.primary is None or is_gone(world.primary):
                await world.start()
            if await _exists_already(world):
                break


def _others(world: World) -> list[Client]:
    """Who is at work beside producers and the administrator of topics."""
    others: list[Client] = [Reader(world, "reader 0"), Reader(world, "reader 1")]
    if len(world.brokers) > 1:
        others.append(DirectReader(world))
    if world.plan.grace_s:
        others.append(Deleter(world))
    if world.plan.moves:
        others.append(Mover(world))
    return others


def attach(world: World, log: Log, tasks: asyncio.TaskGroup) -> None:
    """What every broker runs; there are no sockets here, so the lease alone tells of deaths."""
    controller = Controller(log, ControllerSettings.of(BrokerSettings()))
    world.controllers[log] = controller
    tasks.create_task(controller.run())
    if world.plan.grace_s:
        tasks.create_task(trim(world, log, lambda: controller.is_active))


async def trim(world: World, log: Log, is_controller: Callable[[], bool]) -> None:
    """As `broker.trimming`, in more of a hurry."""
    mine, trimmer = (
        only(log.epoch),
        Trimmer(log.cluster_id, grace_ms=int(world.plan.grace_s * 1000)),
    )

    def wanted(epoch: int, row: ChainRow) -> bool:
        return mine(epoch, row) or (is_controller() and sealed(epoch, row))

    while True:
        await log.performer.clock.sleep_s(TRIM_PERIOD_S * (0.75 + world.chance.random() / 2))
        try:
            done = await trimmer.trim_once(log.performer, wanted)
            world.seen["forgotten stretches"] += await log.forget_ended()
        except (Corrupt, Refused) as error:
            if not world.plan.flips_bits:
                world.violate(f"trimming alarms: {error!r}")
        except LogstoreError:
            continue
        else:
            world.seen["trim points"] += len(done.published)
            world.seen["segments deleted"] += sum(done.deleted.values())


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


async def heal(world: World, producers: list[Producer]) -> None:
    """The liveness phase: one more start, and everybody finishes."""
    world.trace("healed")
    world.heal()
    for life in world.lives:
        world.judge_end(life)
        life.process.kill()
    await start_all(world)
    if not await world.until(lambda: all(p.is_done for p in producers), LIVENESS_S):
        left = [p.name for p in producers if not p.is_done]
        world.violate(f"liveness: producers do not finish: {left}")
        raise AssertionError(world.violations)


async def read_everything(world: World) -> None:
    """From leaders, from followers where there are any, and without a broker."""
    reader, follower, direct = Reader(world), Reader(world, "of followers"), DirectReader(world)
    for topic_id, (_, partitions) in world.live_topics.items():
        for number in range(partitions):
            partition = Partition(topic_id, number)
            try:
                await reader.read_all(partition)
                if world.plan.follower_reads:
                    await follower.read_all(partition, follower=True)
                if len(world.brokers) > 1:
                    await _read_directly(direct, partition)
            except (LogstoreError, TimeoutError) as error:
                world.violate(f"liveness: cannot read: {error!r}")


async def _read_directly(reader: DirectReader, partition: Partition) -> None:
    for _ in range(DIRECT_READS_MAX):
        if not await reader.read_some(partition):
            return
