"""`logstore gc` at any moment, beside brokers and on a registry that is an old copy.

On a copy that is older than a chain it must refuse and delete nothing.
"""

from functools import partial
from pathlib import Path

from logstore.cli.log.gc import collect
from logstore.epoch.table_queries import ThreadedTableQueries
from logstore.errors import Corrupt, LogstoreError, NotFound, Refused
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import segment_key
from logstore.formats.segment import HEADER_BYTES, SegmentKind, decode_header
from logstore.objects.metered import StoreCounts
from logstore.stores.location import DirectoryLocation
from logstore.testing.blocking_ports import BlockingObjects
from logstore.testing.process_loop import Process
from logstore.testing.simulated_rows import at_once
from logstore.wiring.open import OpenLog
from tests.simulation.tiers.ended import until_ended
from tests.simulation.tiers.tables import URL, open_tables
from tests.simulation.tiers.world import OUTSIDE, TierWorld

GC_S_MAX = 120.0
PAUSE_S_MAX = 8.0


class Collector:
    """One process after the other, each of which collects once."""

    def __init__(self, world: TierWorld) -> None:
        self._world = world
        self._count = 0

    async def run(self) -> None:
        world = self._world
        while not world.is_healed:
            await world.clock.sleep_s(world.rng.uniform(0, PAUSE_S_MAX))
            if not world.is_rolled_back:
                await self._collect()

    async def collect_on_an_old_registry(self) -> None:
        """Twice, with a grace between: what the first one publishes the second would delete."""
        world = self._world
        is_older = self._is_older_than_a_chain()
        names = [await self._collect()]
        await world.clock.sleep_s(2 * world.plan.grace_s)
        names.append(await self._collect())
        deleted = sum(world.deletions[name] for name in names)
        world.seen["gc on an old registry"] += 1
        if is_older and self._is_older_than_a_chain():  # a late write may have raised the epoch
            world.seen["gc on a registry older than a chain"] += 1
            if deleted:
                world.violate(f"gc deleted {deleted} objects by an old registry")

    async def _collect(self) -> str:
        """The name of the process, which has ended."""
        world, rng = self._world, self._world.rng
        self._count += 1
        kind = "gc of old" if world.is_rolled_back else "gc"
        process = Process(f"{kind} {self._count}")
        if not world.is_rolled_back and rng.random() < 0.3:
            process.dies_at_step = rng.randrange(1, 200)
        world.may_suspend(process)
        world.runs.append(process)
        before = world.disasters
        done = process.spawn(self._collect_once())
        await until_ended(world, process, done, GC_S_MAX)
        if not done.done():
            world.seen["gc killed"] += 1
            process.kill()
            return process.name
        process.kill()
        error = done.exception()
        world.trace(f"{process.name} ended: {error!r}")
        world.seen["gc done"] += error is None
        if error is not None and not isinstance(error, LogstoreError):
            raise error
        if isinstance(error, Corrupt | Refused):
            if world.is_rolled_back or world.disasters > before:
                world.seen["gc refused an old registry"] += 1
            else:
                world.violate(f"gc raised a false alarm: {error!r}")
        return process.name

    async def _collect_once(self) -> None:
        world = self._world
        assert world.identity is not None
        runner = world.runner(OUTSIDE)
        log = OpenLog(DirectoryLocation(Path(URL)), runner, world.identity, StoreCounts())
        tables = ThreadedTableQueries(partial(open_tables, BlockingObjects(world.stores[OUTSIDE])))
        grace_ms = int(world.plan.grace_s * 1000)
        _, done, troubles = await collect(log, tables, {}, grace_ms=grace_ms)
        world.seen["trim points of gc"] += len(done.published)
        world.seen["segments deleted by gc"] += sum(done.deleted.values())
        for trouble in troubles:
            world.trace(f"gc met trouble: {trouble}")
            world.seen["gc met trouble"] += 1

    def _is_older_than_a_chain(self) -> bool:
        """Whether a chain begins with the epoch that the registry would give next."""
        world = self._world
        found = at_once(world.rows.get(CLUSTER, CLUSTER))
        if found is None:
            return False
        epoch = ClusterRow.of(found).next_epoch
        try:
            front = world.objects.get_range(segment_key(epoch, 1), 0, HEADER_BYTES)
        except NotFound:
            return False
        return decode_header(front).kind is not SegmentKind.SEAL
