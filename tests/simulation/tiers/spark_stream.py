"""A streaming query without Spark: its driver dies between any two calls and goes on from its
checkpoint, as Spark's micro-batches do; its sink takes a batch once, by its number.

What the sink took must be the topic: every offset once, in order, from where the query began. A
query goes on while the registry is lost or old, with its checkpoint: it may fail for whatever
reason, but what it reads then counts like the rest. So it may neither go back nor pass over
anything, whatever `failOnDataLoss` says.
"""

from functools import partial

from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.testing.history import Partition
from logstore.testing.process_loop import Process
from spark_source.options import Mode, ReadOptions, parse_options
from spark_source.planning.offsets import Json
from spark_source.progress import Progress
from tests.simulation.kafka import MAIN
from tests.simulation.tiers.plans import Row, judge
from tests.simulation.tiers.spark_batch import Spark
from tests.simulation.tiers.tables import URL
from tests.simulation.tiers.world import TierWorld

CRASHES = 0.1
LIVES_MAX = 60
"""Without a batch that is done."""


class SparkStream(Spark):
    """Reads the topic `main` from its start on."""

    goes_on_unaware = True

    def __init__(self, world: TierWorld, name: str) -> None:
        super().__init__(world, name)
        given = {"path": URL, "subscribe": MAIN, "startingOffsets": "earliest"}
        given["failOnDataLoss"] = world.rng.choice(("true", "false"))
        given["minPartitions"] = str(world.rng.randint(1, 4))
        if world.rng.random() < 0.5:
            given["maxOffsetsPerTrigger"] = str(world.rng.randint(5, 60))
        self._options: ReadOptions = parse_options(given, Mode.STREAM)
        self._driver_began_s = 0.0
        self._begin_again()

    def _begin_again(self) -> None:
        self._offsets: list[Json] = []
        """The log of offsets: where each batch ends."""
        self._done = 0
        """How many batches the log of commits has."""
        self._taken: set[int] = set()
        """Batches that are in the sink."""
        self._next: dict[Partition, int] = {}
        self._replayed_from: dict[Partition, int] = {}
        """Where the batch begins that a driver would read again: the sink may have it already."""

    async def run(self) -> None:
        world = self.world
        while not world.is_healed:
            await world.clock.sleep_s(world.rng.uniform(0, 4))
            await self._live()

    async def finish(self) -> None:
        """Once all is healed: read what is left."""
        idle = 0
        while idle < LIVES_MAX:
            before = self._done
            if await self._live() and self._done == before:
                break
            idle += self._done <= before
        else:
            self.world.violate(f"liveness: {self.name} does not come to the end")
        topic_id = next(i for i, (name, _) in self.world.live_topics.items() if name == MAIN)
        for number in range(self.world.live_topics[topic_id][1]):
            partition = Partition(topic_id, number)
            acked = self.world.history.acked_end(partition)
            start = self.world.history.start_asked(partition)
            position = max(start, self._next.get(partition, 0))
            reached = self.world.history.first_kept(partition, position)
            if reached < acked and acked > start:
                self.world.violate(
                    f"{self.name} ends early partition={number} at={reached}<{acked}"
                )

    async def _live(self) -> bool:
        """One driver, a few batches; whether it ended by itself."""
        world = self.world
        before, driver = world.disasters_over, self.process("driver")
        self._driver_began_s = world.clock.monotonic_s()
        # Its default is half of the shortest grace that a broker accepts; this world's is shorter.
        survey = LogMetadata(URL, self._options.topics, {}, row_age_s_max=world.plan.grace_s / 2)
        progress = Progress(self._options, survey, 2)
        try:
            for _ in range(world.rng.randint(1, 5)):
                if not await self._batch(driver, progress):
                    return False
        except (Corrupt, Refused) as error:
            if world.disasters > before:
                world.trace(f"{self.name} on an old registry: {error!r}")
                world.seen["query ended by an old registry"] += 1
            else:
                self._judge_driver(error)
            return False
        except LogstoreError as error:
            world.seen[f"query failed by {type(error).__name__}"] += 1
            return False
        return True

    def _crashes(self) -> bool:
        has_crashed = not self.world.is_healed and self.world.rng.random() < CRASHES
        self.world.seen["driver died between two calls"] += has_crashed
        return has_crashed

    async def _batch(self, driver: Process, progress: Progress) -> bool:
        """One micro-batch; False: the driver is gone, its checkpoint is not."""
        world = self.world
        number = self._done
        start: Json | None = self._offsets[number - 1] if number else None
        if start is None:
            start = await self.until_done(driver, progress.initial)
        if start is None:
            return False
        if number < len(self._offsets):
            world.seen["batches replayed"] += 1
        else:
            limited = self._options.offsets_max is not None
            end = await self.until_done(driver, partial(progress.latest, start, is_limited=limited))
            if end is None:
                return False
            if number and end == start:
                return True
            self._offsets.append(end)
            if self._crashes():
                return False
        self.world.trace(f"{self.name} batch={number} start={start} end={self._offsets[number]}")
        return await self._read(driver, progress, number, start)

    async def _read(self, driver: Process, progress: Progress, number: int, start: Json) -> bool:
        world = self.world
        made_s, before = world.clock.monotonic_s(), world.disasters_over
        plan = partial(progress.between, start, self._offsets[number])
        found = await self.until_done(driver, plan)
        if found is None:
            return False
        planned = self.planned(found, made_s, self._options, self._driver_began_s)
        if not world.is_healed and world.rng.random() < 0.2:
            await world.clock.sleep_s(world.rng.uniform(0, world.tiers.late_s))
        results: dict[int, list[Row]] = {}
        for task in range(len(planned.tasks)):
            rows = await self.run_task(self._options, planned, task)
            if rows is None:
                if world.disasters == before:
                    self._begin_again()  # records of the query are gone, or the answer was wrong
                return False
            results[task] = rows
        is_unaware = world.disasters > before
        # An old registry does not tell that the owner of a table changed its rows.
        judge(world, self.name, planned, results, hears_of_edits=not is_unaware)
        world.seen["stream batches on an old registry"] += is_unaware
        if self._crashes():
            return False
        if number not in self._taken:
            self._taken.add(number)
            self._take([row for rows in results.values() for row in rows])
        if self._crashes():
            return False
        self._done = number + 1
        self._replayed_from = dict(self._next)
        world.seen["stream batches"] += 1
        return True

    def _take(self, rows: list[Row]) -> None:
        history = self.world.history
        for partition, offset, _ in sorted(rows):
            expected = self._next.get(partition, 0)
            expected = min(offset, history.first_kept(partition, expected))
            # Below what was asked to be deleted nothing need be there; above it, rows of edits.
            kept = max(expected, history.start_asked(partition))
            is_dropped = expected < offset <= history.first_kept(partition, kept)
            may_skip = not self._options.fail_on_data_loss or partition not in self._next
            if offset != expected and not (is_dropped and (may_skip or self.world.disasters)):
                self.world.violate(
                    f"{self.name}: the sink expects partition={partition.number} "
                    f"offset={expected} and gets {offset}"
                )
            self._next[partition] = offset + 1

    def _judge_driver(self, error: LogstoreError) -> None:
        """Only what was asked to be deleted may be gone."""
        history = self.world.history
        is_gone = any(
            self._replayed_from.get(Partition(topic_id, number), 0)
            < history.start_max(Partition(topic_id, number))
            for topic_id, (name, count) in self.world.live_topics.items()
            for number in range(count)
            if name == MAIN
        )
        if isinstance(error, Refused) and is_gone and self._options.fail_on_data_loss:
            self.world.seen["query refused: records are gone"] += 1
            self._begin_again()
        else:
            self.world.violate(f"{self.name}: a driver got: {error!r}")
