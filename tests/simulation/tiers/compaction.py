"""Schedulers of compaction: runs of the product's own code, killed, frozen, twice at once."""

import random
from collections.abc import Iterator, Sequence

from logstore.compaction.compactor import Compactor
from logstore.compaction.decisions.summary import Summary
from logstore.compaction.leased_rows import Busy
from logstore.compaction.session import RunOptions
from logstore.compaction.worker import carry_out
from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.testing.blocking import wait_for
from logstore.testing.process_loop import Process, run_blocking
from tests.simulation.tiers.ended import until_ended
from tests.simulation.tiers.tables import URL
from tests.simulation.tiers.world import TierWorld

LEASE_S = 3.0
LIFE_S_MAX = 40.0
FROZEN_S_MAX = 15.0


class ShuffledCarrier:
    """Carries out tasks one after the other in any order, some twice, as Spark may."""

    parallelism = 2

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def carry_out(self, tasks: Sequence[str]) -> Iterator[str]:
        for task in self._rng.sample(tasks, len(tasks)):
            results = [carry_out(URL, {}, task) for _ in range(self._rng.choice((1, 1, 1, 2)))]
            yield self._rng.choice(results)

    def close(self) -> None:
        """Nothing is kept."""


class Scheduler:
    """Starts one process after the other that runs compaction, until all is healed."""

    def __init__(self, world: TierWorld, name: str) -> None:
        self._world = world
        self._name = name
        self._count = 0

    async def run(self) -> None:
        world, rng = self._world, self._world.rng
        while not world.is_healed:
            await world.clock.sleep_s(rng.uniform(0, world.tiers.compaction_pause_s))
            if world.is_stopped:
                continue
            await self.live(runs=rng.randint(1, 4), is_harmed=rng.random() < 0.5)

    async def live(self, *, runs: int, is_harmed: bool) -> bool:
        """One process, to its end; whether its last run succeeded."""
        world, rng = self._world, self._world.rng
        self._count += 1
        process = Process(f"compaction {self._name} {self._count}")
        dies_at = freezes_at = 0
        if is_harmed:
            process.dies_at_step = rng.choice((None, rng.randrange(1, 4_000)))
            dies_at = rng.choice((0, rng.randrange(1, 60)))
            freezes_at = rng.choice((0, rng.randrange(1, 60)))
        world.runs = [one for one in world.runs if not one.is_dead] + [process]
        life = _Life(world, process, runs, dies_at, freezes_at)
        done = process.spawn(run_blocking(life.run))
        limit_s = LIFE_S_MAX * (1 if is_harmed else 5)

        def sleeps() -> bool:
            return process.stopped_s > FROZEN_S_MAX

        await until_ended(world, process, done, limit_s, is_over=sleeps)
        if sleeps():
            return False  # others go on; it wakes beside them, after the end of the harm too
        if not done.done():
            world.seen["compaction killed"] += 1
            process.kill()
            return False
        process.kill()  # it has ended
        done.result()
        return life.succeeded


class _Life:
    """What one process does, blocking."""

    def __init__(
        self, world: TierWorld, process: Process, runs: int, dies_at: int, freezes_at: int
    ) -> None:
        self._world = world
        self._process = process
        self._runs = runs
        self._dies_at = dies_at
        self._freezes_at = freezes_at
        self._steps = 0
        self.succeeded = False

    def run(self) -> None:
        world = self._world
        compactor = Compactor(
            URL,
            {},
            ShuffledCarrier(world.rng),
            clock=world.new_clock(),
            lease_s=LEASE_S,
            row_age_s_max=world.plan.grace_s / 2,
        )
        options = RunOptions(now=True, task_bytes=world.tiers.task_bytes)
        for _ in range(self._runs):
            self.succeeded = False
            try:
                summary = compactor.run(options, watch=self._watch)
            except Busy:
                world.seen["compaction busy"] += 1
            except LogstoreError as error:
                self._judge(error)
            else:
                self.succeeded = not summary.errors
                self._note(summary)
            wait_for(world.clock.sleep_s(world.rng.uniform(0, world.tiers.compaction_pause_s)))
        compactor.close()

    def _judge(self, error: LogstoreError) -> None:
        world = self._world
        world.trace(f"{self._process.name} failed: {error!r}")
        world.seen[f"compaction ended by {type(error).__name__}"] += 1
        if world.is_rolled_back:
            world.seen["compaction refused an old registry"] += isinstance(error, Refused)
        elif isinstance(error, Corrupt | Refused) and not world.plan.flips_bits:
            world.violate(f"{self._process.name} raised a false alarm: {error!r}")

    def _note(self, summary: Summary) -> None:
        world = self._world
        world.trace(f"{self._process.name} rows={summary.rows} errors={summary.errors}")
        world.seen["compaction runs"] += 1
        world.seen["rows moved"] += summary.rows
        world.seen["compaction tasks"] += summary.tasks
        world.seen["runs abandoned"] += summary.abandoned_runs
        for one in summary.topics.values():
            world.seen["files merged"] += one.merged_files
            world.seen["files expired"] += one.expired_files

    def _watch(self, step: str) -> None:
        """Every step may be the last one, or one that takes long."""
        self._steps += 1
        self._world.trace(f"{self._process.name} step: {step}")
        if self._steps == self._dies_at:
            self._world.seen[f"compaction died at: {step.split(':')[0]}"] += 1
            self._process.kill()
            wait_for(self._world.clock.sleep_s(0))
        if self._steps == self._freezes_at:
            self._world.seen["compaction frozen"] += 1
            if self._world.tiers.suspends and self._world.rng.random() < 0.5:
                self._world.suspend(self._process)
            else:
                self._process.stop_for(self._world.rng.uniform(1.0, FROZEN_S_MAX))
            wait_for(self._world.clock.sleep_s(0))


async def compact_all(world: TierWorld, attempts_max: int = 20) -> bool:
    """Once all is healed: run until one run moves everything."""
    scheduler = Scheduler(world, "last")
    for _ in range(attempts_max):
        if await scheduler.live(runs=1, is_harmed=False):
            return True
        await world.clock.sleep_s(LEASE_S)
    return False
