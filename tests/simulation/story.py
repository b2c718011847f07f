"""The story of one seed: clients at work, harm done to brokers, then everything healed."""

import asyncio
from collections.abc import Awaitable, Callable

from logstore.errors import LogstoreError
from logstore.formats.topic_row import TOPIC, TopicRow
from logstore.testing.history import Partition
from logstore.testing.process_loop import simulate
from logstore.testing.simulated_rows import at_once
from tests.simulation.admins import Admin, Deleter, Mover
from tests.simulation.alarms import HeardAlarms
from tests.simulation.clients import Producer, crowd_in
from tests.simulation.direct_reader import DirectReader
from tests.simulation.group_member import GroupMember
from tests.simulation.harms import do_harm, start_all
from tests.simulation.kafka import MAIN, Client
from tests.simulation.plan import Plan
from tests.simulation.readers import READ_ALL_S, Reader
from tests.simulation.world import LIMIT_S, LIVENESS_S, World, is_gone

DIRECT_READS_MAX = 1_000


def play(seed: int, plan: Plan | None = None) -> World:
    """The world as it ended. Raises nothing for what the log did wrong: see `violations`."""
    world = World(seed, plan)
    with HeardAlarms(world.hear_alarm):
        simulate(_play(world), limit_s=LIMIT_S)
    return world


async def _play(world: World) -> None:
    try:
        await _tell(world)
    finally:
        world.end()


async def _tell(world: World) -> None:
    await world.create()
    await start_all(world)
    admin = Admin(world)
    await create_main(world, admin)
    producers = producers_of(world)
    async with asyncio.TaskGroup() as tasks:
        for client in (*producers, admin, *_others(world)):
            tasks.create_task(client.run())
        if world.plan.crowd:
            tasks.create_task(_crowds(world))
        await do_harm(world)
        await heal(world, producers)
    await read_everything(world)
    member = GroupMember(world)
    if world.group_offsets and not await until_true(world, member.judge_offsets):
        world.violate("liveness: a group's offsets cannot be fetched")
    world.count_trimming()
    world.check(all_was_read=True)


async def create_main(world: World, admin: Admin) -> None:
    """The topic that is there from the beginning."""
    while not await admin.create(MAIN, world.plan.partitions):
        if world.primary is None or is_gone(world.primary):
            await world.start()
        await world.clock.sleep_s(0.1)


def producers_of(world: World) -> list[Producer]:
    return [
        Producer(world, f"p{number}", idempotent=number < world.plan.idempotent)
        for number in range(world.plan.idempotent + world.plan.plain)
    ]


def _others(world: World) -> list[Client]:
    """Who is at work beside producers and the administrator of topics."""
    others: list[Client] = [Reader(world, "reader 0"), Reader(world, "reader 1")]
    if len(world.brokers) > 1:
        others.append(DirectReader(world))
    others += [GroupMember(world) for _ in range(world.plan.group_members)]
    if world.plan.grace_s:
        others.append(Deleter(world))
    if world.plan.moves:
        others.append(Mover(world))
    return others


async def _crowds(world: World) -> None:
    client = Client(world)
    while not world.is_healed:
        await world.clock.sleep_s(world.rng.uniform(0, 10))
        topic_id, (_, partitions) = next(iter(world.live_topics.items()))
        partition = Partition(topic_id, world.rng.randrange(partitions))
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
    for topic_id, (name, partitions) in world.live_topics.items():
        for number in range(_partition_count(world, topic_id, name, partitions)):
            partition = Partition(topic_id, number)
            try:
                await reader.read_all(partition)
                if world.plan.follower_reads:
                    await follower.read_all(partition, follower=True)
                if len(world.brokers) > 1:
                    await _read_directly(direct, partition)
            except (LogstoreError, TimeoutError) as error:
                world.violate(f"liveness: cannot read: {error!r}")


async def until_true(world: World, attempt: Callable[[], Awaitable[bool]]) -> bool:
    """Try for as long as a client would."""
    until_s = world.clock.monotonic_s() + READ_ALL_S
    while world.clock.monotonic_s() < until_s:
        if await attempt():
            return True
        await world.clock.sleep_s(0.2)
    return False


def _partition_count(world: World, topic_id: bytes, name: str, known: int) -> int:
    """It may have grown although who asked for that was never answered."""
    row = at_once(world.rows.get(TOPIC, name))
    topic = None if row is None else TopicRow.of(row)
    return known if topic is None or topic.topic_id != topic_id else max(known, topic.partitions)


async def _read_directly(reader: DirectReader, partition: Partition) -> None:
    for _ in range(DIRECT_READS_MAX):
        if not await reader.read_some(partition):
            return
