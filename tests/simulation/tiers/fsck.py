"""`logstore fsck` at any moment of a world: where nothing is damaged it must find nothing."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

from logstore.cli.fsck.log import check_log
from logstore.errors import LogstoreError
from logstore.formats.checkpoint import decode_checkpoint
from logstore.formats.keys import checkpoint_key
from logstore.history.forms.names import log_prefix
from logstore.objects.memory import MemoryObjects
from logstore.objects.metered import StoreCounts
from logstore.ports.registry import Row
from logstore.protocol.rules.checks import Problem, ProblemKind
from logstore.registry.memory import MemoryRows
from logstore.registry.reads import RetryingReads
from logstore.runners.step_runner import BlockingStepRunner
from logstore.stores.location import DirectoryLocation
from logstore.testing.history import Partition
from logstore.testing.process_loop import Process, run_blocking
from logstore.testing.simulated_rows import at_once
from logstore.wiring.open import ReadableLog, identity_in, open_readable
from tests.simulation.tiers.ended import until_ended
from tests.simulation.tiers.tables import URL
from tests.simulation.tiers.world import TierWorld

FSCK_S_MAX = 200.0
LEFTOVERS = (ProblemKind.NO_TOPIC, ProblemKind.NO_PARTITION)
"""What a creation or a deletion that died leaves until the controller clears it away."""
NO_LONGER_THERE = re.compile(r"trim=(\d+) topic=([0-9a-f]{32}) partition=(\d+): ")


class Fsck:
    """An operator who checks the log now and then, while it is at work."""

    def __init__(self, world: TierWorld) -> None:
        self._world = world
        self._count = 0

    async def run(self) -> None:
        world = self._world
        while not world.is_healed:
            await world.clock.sleep_s(world.rng.uniform(0, 30))
            if not world.is_rolled_back:
                await self.check()

    async def check(self) -> None:
        world = self._world
        self._count += 1
        process = Process(f"fsck {self._count}")
        world.may_suspend(process)
        done = process.spawn(run_blocking(_check))
        await until_ended(world, process, done, FSCK_S_MAX, is_over=lambda: world.is_rolled_back)
        if world.is_rolled_back:
            process.kill()
            if done.done() and not done.cancelled():
                done.exception()  # it may have failed just before: of no interest any more
            return
        if not done.done():  # it takes too long for the operator
            process.kill()
            world.seen["fsck given up"] += 1
            return
        try:
            problems = done.result()
        except LogstoreError as error:
            world.seen[f"fsck ended by {type(error).__name__}"] += 1
            return
        world.seen["fsck beside brokers"] += 1
        for problem in problems:
            if problem.what in LEFTOVERS:
                world.seen[f"fsck: {problem.what.value}"] += 1
                continue
            if were_deleted_before(world, problem):
                world.seen["fsck: deleted before the registry was put back"] += 1
                continue
            world.violate(f"fsck of a whole log: {shown(problem)}")


def were_deleted_before(world: TierWorld, problem: Problem) -> bool:
    """Whether fsck calls records lost that a restore cannot tell from lost ones.

    The rows that were put back are older than the log start that let the segments go, and the topic
    has a table, which may have lost commits: docs/operations/restore.md has this limit.
    """
    found = NO_LONGER_THERE.match(problem.detail)
    if problem.what is not ProblemKind.LOST or found is None or not world.disasters:
        return False
    seq, topic_id, number = int(found[1]), bytes.fromhex(found[2]), int(found[3])
    if not any(True for _ in world.objects.list(log_prefix(topic_id))):
        return False  # without a table, restore puts log start above what is gone
    front = decode_checkpoint(world.objects.get(checkpoint_key(problem.chains[0], seq)))
    end = max(
        epoch_range.end
        for key, epoch_range in front.epoch_ranges.items()
        if (key.topic_id, key.partition) == (topic_id, number)
    )
    return end <= world.history.start_asked(Partition(topic_id, number))


def shown(problem: Problem) -> str:
    return f"{problem.what.value}: {problem.where}: {problem.detail}"


def _check() -> Sequence[Problem]:
    return check_log(open_readable(URL), lambda _: None).problems


def check_stored(objects: MemoryObjects, rows: MemoryRows) -> Sequence[Problem]:
    """What `logstore fsck --data` says of a log that stands still. Raises as it does."""
    identity = identity_in(objects)
    assert identity is not None
    rng = random.Random(0)
    runner = BlockingStepRunner(objects, RetryingReads(_AtOnce(rows), rng), rng)
    log = ReadableLog(DirectoryLocation(Path(URL)), runner, identity, StoreCounts(), _AtOnce(rows))
    return check_log(log, lambda _: None, bodies=True).problems


class _AtOnce:
    """A `BlockingRowStore` of rows in memory, to read."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    def get(self, pk: str, sk: str) -> Row | None:
        return at_once(self._rows.get(pk, sk))

    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return at_once(self._rows.query(pk, prefix, after=after, limit=limit))

    def put_if(self, *_: object) -> None:
        raise AssertionError("fsck changes nothing")

    update_if = delete_if = put_if

    def close(self) -> None:
        """Keeps the rows."""
