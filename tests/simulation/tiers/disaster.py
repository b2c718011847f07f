"""A registry that is lost, or put back from a copy of any age, or half; then `logstore restore`.

Before it is run, brokers may start, trim, and compaction may run: they may refuse, and nothing that
anybody needs may go. After it everything that was acknowledged is there; log start may have gone
back, since rows alone say where DeleteRecords put it.
"""

import re
from collections.abc import Mapping
from functools import partial

from logstore.epoch.table_queries import ThreadedTableQueries
from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.formats.topic_record import TOPICS, decode_record
from logstore.formats.topic_row import TOPIC, TopicRow
from logstore.restore.run import restore
from logstore.restore.taking_back import ThreadedTrash
from logstore.testing.audit import audit
from logstore.testing.blocking_ports import BlockingObjects
from logstore.testing.history import Partition
from logstore.testing.process_loop import Process
from logstore.testing.simulated_rows import at_once
from tests.simulation.admins import Deleter
from tests.simulation.harms import start_all
from tests.simulation.story import until_true
from tests.simulation.tiers.collector import Collector
from tests.simulation.tiers.ended import until_ended
from tests.simulation.tiers.fsck import Fsck
from tests.simulation.tiers.tables import open_tables, read_tables
from tests.simulation.tiers.world import OUTSIDE, TierWorld
from tests.simulation.world import is_gone

COPIES_MAX = 20
RESTORE_S_MAX = 300.0
ATTEMPTS_MAX = 60
NAME_TAKEN = re.compile(r"a topic of this name exists: name=(\S+) lost=([0-9a-f]+);")


class Copies:
    """An operator who copies the registry now and then."""

    def __init__(self, world: TierWorld) -> None:
        self._world = world

    async def run(self) -> None:
        world = self._world
        while not world.is_healed:
            if not world.is_rolled_back:
                world.copies = [*world.copies[-COPIES_MAX:], world.rows.copy()]
            await world.clock.sleep_s(world.rng.uniform(0, 6))


async def lose_registry(world: TierWorld) -> None:
    rng = world.rng
    world.is_rolled_back = True
    world.disasters += 1
    kill_all(world)
    copy = rng.choice([{}, rng.choice(world.copies), rng.choice(world.copies)])
    if copy and rng.random() < 0.3:
        copy = {place: row for place, row in copy.items() if rng.random() < 0.5}
        world.seen["half a copy of the registry"] += 1
    world.trace(f"disaster: registry of {len(copy)} rows")
    world.seen["registry lost" if not copy else "registry put back from a copy"] += 1
    world.rows.put_back(copy)
    world.history.put_back()
    if copy and rng.random() < 0.5:
        await Collector(world).collect_on_an_old_registry()
    if copy and rng.random() < 0.7:
        await _go_on_unaware(world)
    world.is_stopped = True
    kill_all(world)
    await _restore(world)
    world.copies = []
    world.forget_fences()
    world.is_rolled_back = world.is_stopped = False
    await Fsck(world).check()
    await start_all(world)


async def delete_again(world: TierWorld) -> None:
    """Records that were deleted, which rows alone said: where some are gone from both tiers, and
    reading them fails, the operator deletes them again (docs/operations/restore.md).
    """
    tables, deleter = read_tables(world.objects), Deleter(world)
    found = audit(world.objects, world.rows, tables.ends)
    for partition, log_start in found.log_starts.items():
        both = (*tables.records.get(partition, ()), *found.records[partition])
        there = {record.offset for record in both}
        name, _ = world.live_topics.get(partition.topic_id, ("", 0))
        asked = min(world.history.start_asked(partition), found.ends[partition])
        if name and not there.issuperset(range(log_start, asked)):
            delete = partial(deleter.delete_below, name, partition, asked)
            if not await until_true(world, delete):
                world.violate(f"liveness: what was deleted cannot be deleted again {partition}")
            world.seen["deleted again after a restore"] += 1


def kill_all(world: TierWorld) -> None:
    for life in world.lives:
        life.error = None  # whatever it was: its registry was another one
        life.process.kill()
    world.primaries = dict.fromkeys(world.brokers)
    for process in world.runs:
        process.kill()


async def _go_on_unaware(world: TierWorld) -> None:
    """Brokers are started as if nothing had happened; they may refuse."""
    lives = [world.spawn(broker) for broker in world.brokers]
    await world.clock.sleep_s(world.rng.uniform(1, 10 + 4 * world.plan.grace_s))
    for life in lives:
        world.trace(f"{life.process.name} on an old registry: {life.error!r}")
        if life.is_serving:
            world.seen["served on an old registry"] += 1
        elif is_gone(life) and isinstance(life.error, Refused):
            world.seen["refused an old registry"] += 1


async def _restore(world: TierWorld) -> None:
    rng = world.rng
    error: BaseException | None = None
    names: dict[bytes, str] = {}
    for attempt in range(ATTEMPTS_MAX):
        process = Process(f"restore {attempt}")
        if attempt < 4 and rng.random() < 0.5:
            process.dies_at_step = rng.randrange(1, 300)
        world.may_suspend(process)
        done = process.spawn(_restore_once(world, names))
        await until_ended(world, process, done, RESTORE_S_MAX)
        if not done.done():
            world.seen["restore killed"] += 1
            process.kill()
            continue
        error = done.exception()
        if error is None:
            world.seen["restored"] += 1
            world.note("restore")
            _forget_never_led(world)
            return
        world.trace(f"restore failed: {error!r}")
        is_late = isinstance(error, Refused) and "stop every broker" in str(error)
        taken = NAME_TAKEN.search(str(error))
        if taken is not None:
            _rename(world, names, *taken.groups())
        elif is_late:
            world.seen["restore met a late write"] += 1  # of a broker that was killed
        elif isinstance(error, Corrupt | Refused) or not isinstance(error, LogstoreError):
            world.violate(f"restore fails: {error!r}")
    raise AssertionError(f"restore does not succeed: {error!r}")


def _rename(world: TierWorld, names: dict[bytes, str], name: str, lost: str) -> None:
    """A topic was created again on the old registry: the lost one gets another name, as asked."""
    topic_id, other = bytes.fromhex(lost), f"{name}-restored-{world.disasters}"
    world.seen["restored under another name"] += 1
    names[topic_id] = other
    if topic_id in world.live_topics:
        world.live_topics[topic_id] = (other, world.live_topics[topic_id][1])


def _forget_never_led(world: TierWorld) -> None:
    """A topic without a batch may be gone where another topic ever had its name, and only there."""
    rows = {TopicRow.of(row).topic_id for _, row in at_once(world.rows.query(TOPIC))}
    keys = [info.key for info in world.objects.list(TOPICS)]
    records = [decode_record(key, world.objects.get(key)) for key in keys]
    for topic_id in world.live_topics.keys() - rows:
        name, partitions = world.live_topics[topic_id]
        numbers = range(partitions)
        is_empty = not any(world.history.acked_end(Partition(topic_id, n)) for n in numbers)
        owners = {one.topic.topic_id for one in records if one.name == name}
        if is_empty and len(owners) > 1:
            world.seen["forgotten with the registry: a topic that was never led"] += 1
            world.live_topics.pop(topic_id)
            world.history.delete(topic_id)


async def _restore_once(world: TierWorld, names: Mapping[bytes, str]) -> None:
    assert world.identity is not None
    store = BlockingObjects(world.stores[OUTSIDE])
    done = await restore(
        world.runner(OUTSIDE),
        world.identity.cluster_id,
        ThreadedTableQueries(partial(open_tables, store)),
        dry_run=False,
        advance=lambda _: None,
        names=names,
        trash=ThreadedTrash(world.objects) if world.tiers.takes_back else None,
    )
    for key in done.taken_back:
        world.seen[f"taken back by restore: {key.split('/')[0]}"] += 1
