"""Topics are used by name while administrators delete them and make them again, elsewhere.

Three brokers with the harm of `tests.simulation.harms`. A failing seed is played again by

    python -m tests.simulation.replay --names SEED
"""

import asyncio
import random
from dataclasses import replace

from logstore.formats.keys import segment_key
from logstore.formats.segment import EntryKind, decode_front
from logstore.objects.memory import MemoryObjects
from logstore.testing.audit import Audit, records_of_batches
from logstore.testing.history import Partition
from logstore.testing.process_loop import simulate
from logstore.testing.simulated_rows import RowFaults
from logstore.testing.simulated_store import StoreFaults
from logstore.wire.read_feed import READ_FEED_KEY
from tests.simulation.alarms import HeardAlarms
from tests.simulation.harms import CLUSTER_HARMS, do_harm, start_all
from tests.simulation.name_client import NAMES, NamingClient
from tests.simulation.name_committer import NameCommitter
from tests.simulation.name_keeper import NameKeeper, read_whole
from tests.simulation.name_ledger import Ledger
from tests.simulation.name_traffic import NameProducer, NameReader
from tests.simulation.plan import Plan, draw_plan
from tests.simulation.story import heal
from tests.simulation.world import LIMIT_S, World

HARMS = {
    **{name: weight for name, weight in CLUSTER_HARMS.items() if name != "twin"},
    "cut off from the registry": 10,
    "registry late": 5,
    "registry loses answers": 15,
    "quiet": 25,
}
"""A broker that cannot read the registry keeps its old view. A twin with its predecessor's lock
ends leases that hold: nothing could be claimed."""
FINISH_S = 300.0
READ_S = 60.0


def draw_names_plan(rng: random.Random) -> Plan:
    """Few faults at any time, or hardly a name is made before it is deleted: harm brings more."""
    plan = draw_plan(rng)
    few = rng.choice((0.0, 0.0, 0.02))
    return replace(
        plan,
        store=StoreFaults(
            put_lost=few,
            put_answer_lost=few,
            put_late=few,
            throttled=few,
            get_failed=few,
            latency_max_s=rng.choice((0.005, 0.005, 0.03)),
        ),
        rows=RowFaults(
            throttled=few,
            answer_lost=few,
            late=few,
            slow=rng.choice((0.0, 0.05, 0.1)),
            slow_max_s=rng.choice((1.0, 5.0)),
        ),
        settings=replace(plan.settings, flush=replace(plan.settings.flush, interval_s=0.01)),
        flips_bits=False,
        brokers=3,
        replicas=rng.randint(1, 2),
        faults_s=rng.uniform(15, 30),
        clocks_differ=rng.random() < 0.3,
        odd_clients=0.0,
        padding_bytes=0,
        crowd=0,
    )


def play_names(seed: int) -> World:
    """The world as it ended: see `violations`."""
    world = World(seed, draw_names_plan(random.Random(f"names {seed}")))
    with HeardAlarms(world.hear_alarm):
        simulate(_play(world), limit_s=LIMIT_S)
    return world


async def _play(world: World) -> None:
    try:
        await _tell(world)
    finally:
        world.end()


async def _tell(world: World) -> None:
    ledger = Ledger(world.violate)
    await world.create()
    await start_all(world)
    clients: list[NamingClient | NameKeeper] = [
        *(NameKeeper(world, ledger, name) for name in NAMES),
        *(
            NameProducer(world, ledger, f"producer-{number}", is_idempotent=number == 0)
            for number in range(3)
        ),
        *(NameReader(world, ledger, f"reader-{number}") for number in range(2)),
        *(NameCommitter(world, ledger, f"group-{number}") for number in range(2)),
    ]
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(client.run())
        await do_harm(world, HARMS)
        await heal(world, [])
        if not await world.until(lambda: all(one.is_done for one in clients), FINISH_S):
            left = [type(one).__name__ for one in clients if not one.is_done]
            world.violate(f"liveness: clients do not finish: {left}")
            raise AssertionError(world.violations)
    await _check(world, ledger)


async def _check(world: World, ledger: Ledger) -> None:
    reader = NameReader(world, ledger, "last reader")
    for name in NAMES:
        life = ledger.settled(name)
        assert life is not None
        for number in range(life.partitions):
            until_s = world.clock.monotonic_s() + READ_S
            if not await read_whole(world, ledger, reader, life, number, until_s):
                world.violate(f"liveness: cannot read {life} partition={number}")
    for served in world.lives:
        if served.serving is not None:
            by_api = served.serving.broker.clients.latencies.by_api
            feeds = [sum(one.counts) for api, one in by_api.items() if api.key == READ_FEED_KEY]
            world.seen["feeds read for another broker"] += sum(feeds)
    found = world.audit()
    ledger.check_end(records_of_all_lives(world.objects, found))
    world.seen.update(found.seen)
    world.violations += found.violations
    for store in world.stores.values():
        world.violations += store.violations


def records_of_all_lives(
    objects: MemoryObjects, found: Audit
) -> dict[Partition, dict[int, list[bytes]]]:
    """Returns every record that chains hold, by partition and offset, of deleted topics too.

    What is trimmed is there as well: no grace ends in this world.
    """
    records: dict[Partition, dict[int, list[bytes]]] = {}
    for epoch, chain in found.chains.items():
        for seq in range(chain.state.next_seq):
            data = objects.get(segment_key(epoch, seq))
            index = decode_front(data)
            for entry in index.entries:
                if entry.kind == EntryKind.BATCH:
                    at = index.header.body_at + entry.position
                    by_offset = records.setdefault(Partition(entry.topic_id, entry.partition), {})
                    for record in records_of_batches(data[at : at + entry.length]):
                        by_offset.setdefault(record.offset, []).append(record.value)
    return records
