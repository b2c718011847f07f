"""Spark batches: planned now, their tasks run at any later time, some twice, some killed.

The product's code without Spark: the driver's `Progress`, the executors' `read_rows`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.missing import Resolver
from logstore.reading.direct.task_rows import open_once, read_rows
from logstore.reading.planning.tasks import ReadTask
from logstore.testing.history import Partition
from logstore.testing.process_loop import Process, run_blocking
from spark_source.options import Mode, ReadOptions, parse_options
from spark_source.progress import Plan, Progress
from tests.simulation.tiers.ended import until_ended
from tests.simulation.tiers.plans import Planned, Row, judge, ranges_of
from tests.simulation.tiers.tables import URL
from tests.simulation.tiers.world import TierWorld

T = TypeVar("T")

COLUMNS = ("topic", "partition", "offset", "value")
CALL_S_MAX = 120.0
ATTEMPTS_MAX = 12
STEPS = {"driver": 300, "executor": 40}
"""About as many as most of them take."""
GAP = re.compile(r"a segment is missing: .* partition=(\d+) offset=(\d+);")


class Spark:
    """What drivers of batches and streams share."""

    goes_on_unaware = False
    """Whether it reads on while the registry is lost or old."""

    def __init__(self, world: TierWorld, name: str) -> None:
        self.world = world
        self.name = name
        self._count = 0

    def process(self, kind: str) -> Process:
        """A new one; it may die at any step of its own."""
        self._count += 1
        process = Process(f"{kind} {self.name} {self._count}")
        rng = self.world.rng
        if not self.world.is_healed and rng.random() < 0.2:
            process.dies_at_step = rng.randrange(1, 300)
        self.world.may_suspend(process, STEPS[kind])
        return process

    async def until_done(self, process: Process, call: Callable[[], T]) -> T | None:
        """What the call gave; `None` where the process died, or took too long."""
        done = process.spawn(run_blocking(call))
        await until_ended(self.world, process, done, CALL_S_MAX, look_s=0.02, stops_count=False)
        if not done.done() and not process.is_dead:
            self.world.violate(f"{process.name} takes too long")
            process.kill()
        if not done.done():
            self.world.seen[f"{process.name.split()[0]} killed"] += 1
            return None
        return done.result()

    async def until_restored(self) -> None:
        """An old registry tells nothing that could be judged."""
        while self.world.is_rolled_back:
            await self.world.clock.sleep_s(1)

    async def run_task(
        self, options: ReadOptions, planned: Planned, number: int
    ) -> list[Row] | None:
        """One attempt after the other; `None`: what it was to read is gone, as it may be."""
        world, task = self.world, planned.tasks[number]
        for _ in range(ATTEMPTS_MAX):
            if not self.goes_on_unaware:
                await self.until_restored()
            process, before = self.process("executor"), world.disasters_over
            try:
                call = partial(_rows, options, task, planned.topics)
                rows = await self.until_done(process, call)
            except (Refused, Corrupt) as error:
                if world.disasters > before:
                    await world.clock.sleep_s(world.rng.uniform(0, 1))
                    continue
                self._judge(error, planned, task)
                return None
            except LogstoreError as error:
                world.seen[f"task failed by {type(error).__name__}"] += 1
                await world.clock.sleep_s(world.rng.uniform(0, 1))
                continue
            if rows is not None and (world.disasters == before or self.goes_on_unaware):
                for kind in (*world.events_since(planned.made_s), *self._raised(planned, task)):
                    world.seen[f"planned before and read after: {kind}"] += 1
                return rows
        if world.is_healed:
            world.violate(f"liveness: {self.name}: a task fails again and again")
        return None

    def _raised(self, planned: Planned, task: ReadTask) -> list[str]:
        """What raised a log start above offsets of the task since it was planned."""
        for partition, start, _ in ranges_of(task):
            if max(start, planned.starts[partition]) < self.world.history.start_asked(partition):
                return ["retention" if self.world.tiers.keeps_s else "DeleteRecords"]
        return []

    def planned(self, plan: Plan, made_s: float, options: ReadOptions, began_s: float) -> Planned:
        planned = Planned(*plan, made_s, options.fail_on_data_loss, began_s)
        asked = self.world.history.start_asked
        planned.starts.update((partition, asked(partition)) for partition in planned.wanted)
        return planned

    def _judge(self, error: LogstoreError, planned: Planned, task: ReadTask) -> None:
        world, history = self.world, self.world.history
        is_gone = any(
            history.is_deleted(partition.topic_id) or start < history.start_max(partition)
            for partition, start, end in ranges_of(task)
        )
        if isinstance(error, Refused) and is_gone and planned.fails_on_data_loss:
            world.seen["task refused: records are gone"] += 1
        elif isinstance(error, Corrupt) and self._is_in_a_gap(error, task):
            world.seen["task failed: deleted before the registry was put back"] += 1
        elif not world.plan.flips_bits:
            world.violate(f"{self.name}: a task got: {error!r}")

    def _is_in_a_gap(self, error: Corrupt, task: ReadTask) -> bool:
        """Whether it failed at a record that was deleted, but of which the rows that said so are
        lost: reading there fails, as docs/operations/restore.md has it.
        """
        found, world = GAP.match(str(error)), self.world
        return (
            bool(world.disasters)
            and found is not None
            and any(
                partition.number == int(found[1])
                and int(found[2]) < world.history.start_asked(partition)
                for partition, _, _ in ranges_of(task)
            )
        )


class SparkBatch(Spark):
    """Reads one topic from its start to its end, again and again."""

    async def run(self) -> None:
        world, rng = self.world, self.world.rng
        while not world.is_healed:
            await world.clock.sleep_s(rng.uniform(0, 8))
            if world.live_topics:
                await self.read_once(rng.choice(list(world.live_topics)))

    async def read_once(self, topic_id: bytes) -> bool:
        """One plan and all of its tasks; whether all could be read."""
        world, rng = self.world, self.world.rng
        name, count = world.live_topics[topic_id]
        given = {
            "path": URL,
            "subscribe": name,
            "topicId": topic_id.hex(),
            "failOnDataLoss": rng.choice(("true", "false")),
            "minPartitions": str(rng.randint(1, 6)),
        }
        options = parse_options(given, Mode.BATCH)
        await self.until_restored()
        before = world.disasters
        partitions = [Partition(topic_id, number) for number in range(count)]
        acked = {one: world.history.acked_end(one) for one in partitions}
        planned = await self._plan(options, partitions)
        if planned is None or world.disasters > before:
            return False
        self._judge_plan(planned, acked)
        if not world.is_healed:
            await world.clock.sleep_s(rng.uniform(0, world.tiers.late_s))
        order = rng.sample(range(len(planned.tasks)), len(planned.tasks))
        results: dict[int, list[Row]] = {}
        for number in order + [one for one in order if rng.random() < 0.2]:
            if not world.is_healed and rng.random() < 0.2:
                await world.clock.sleep_s(rng.uniform(0, world.tiers.late_s))
            rows = await self.run_task(options, planned, number)
            if rows is None:
                return False
            world.seen["tasks run twice"] += number in results
            results[number] = rows
        world.seen["plans read"] += 1
        world.seen["pieces cut between tasks"] += planned.cut_pieces
        judge(world, self.name, planned, results)
        return True

    async def _plan(self, options: ReadOptions, partitions: Sequence[Partition]) -> Planned | None:
        world = self.world
        began_s = world.clock.monotonic_s()
        try:
            found = await self.until_done(self.process("driver"), partial(_plan, options))
        except LogstoreError as error:
            world.seen[f"plan failed by {type(error).__name__}"] += 1
            is_deleted = world.history.is_deleted(partitions[0].topic_id)
            is_judged = not is_deleted and not world.is_rolled_back
            if is_judged and isinstance(error, Corrupt | Refused):
                world.violate(f"{self.name}: a plan got: {error!r}")
            return None
        if found is None:
            return None
        return self.planned(found, began_s, options, began_s)

    def _judge_plan(self, planned: Planned, acked: dict[Partition, int]) -> None:
        """From where the log may start to where everything is that was acknowledged before."""
        world = self.world
        for partition, end in acked.items():
            wanted = planned.wanted.get(partition, set())
            start = world.history.start_asked(partition)
            there = wanted.union(world.history.edited(partition))
            missing = [offset for offset in range(start, end) if offset not in there]
            if missing and not world.history.is_deleted(partition.topic_id):
                world.violate(
                    f"{self.name}: a plan leaves out what is acknowledged partition="
                    f"{partition.number} offset={missing[0]} acked end={end}"
                )


def _plan(options: ReadOptions) -> Plan:
    """In the driver."""
    survey = LogMetadata(options.url, options.topics, dict(options.storage))
    return Progress(options, survey, 2).batch()


def _rows(options: ReadOptions, task: ReadTask, topics: Mapping[bytes, str]) -> list[Row]:
    """In an executor."""
    resolver = Resolver(
        options.url, options.storage, topics, fail_on_data_loss=options.fail_on_data_loss
    )
    store = open_once(options.url, options.storage)
    ids = {name: topic_id for topic_id, name in topics.items()}
    found: list[Row] = []
    for rows in read_rows(store, task, topics, COLUMNS, resolver):
        columns = (rows.column(name).to_pylist() for name in COLUMNS)
        for topic, number, offset, value in zip(*columns, strict=True):
            found.append((Partition(ids[topic], number), offset, value))
    return found
