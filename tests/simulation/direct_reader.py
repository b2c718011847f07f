"""A consumer without a broker: the steps of `reading.direct.reader`, on the simulated stores.

It follows chains for as long as rows name them, as a streaming query does, and reads segment ranges
as an executor does. Whatever was acknowledged before it looked, it must see.
"""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

from logstore.errors import Corrupt, LogstoreError, NotFound
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.reading.direct.reader import LogReader, PartitionView
from logstore.reading.direct.segment_fetch import FoundBatch, batches_of
from logstore.reading.direct.task_segments import TaskSegments, places_of
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.tasks import SeqRange
from logstore.runners.step_runner import StepRunner
from logstore.testing.audit import records_of_batches
from logstore.testing.history import Partition
from logstore.testing.simulated_rows import at_once
from logstore.wiring.open import ReadableLog
from tests.simulation.in_order import InOrder
from tests.simulation.kafka import Client
from tests.simulation.world import World

RECORDS_MAX = 40
PAUSES_S_MAX = (0.5, 2.0, 20.0)
"""The longest outlasts the grace of most plans: what comes next may have been deleted by then."""


class _Reader(LogReader):
    """`LogReader` whose steps another performs."""

    def __init__(self, world: World, runner: StepRunner) -> None:
        # Only what it does at once, in a thread that may wait, asks its log for a step runner.
        log = cast(ReadableLog, SimpleNamespace(identity=world.identity))
        super().__init__(log, row_age_s_max=world.plan.settings.delete_grace_s / 2)
        self._runner = runner
        self._live_topics = world.live_topics
        self._rows = world.rows

    async def view(self, key: TopicPartition) -> PartitionView | None:
        """As `partitions` has it, of all topics: their chains are followed from call to call."""
        wanted = {*self._live_topics, key.topic_id}
        found = (await self._runner.run(self._partitions(wanted))).get(key)
        return found if self._is_live(key.topic_id) else None

    def _is_live(self, topic_id: bytes) -> bool:
        """As `topics` has it. A creation that was late may bring a deleted partition's row back."""
        if topic_id not in self._live_topics:
            return False
        row = at_once(self._rows.get(TOPIC, self._live_topics[topic_id][0]))
        topic = None if row is None else TopicRow.of(row)
        return topic is not None and topic.topic_id == topic_id and topic.status is TopicStatus.LIVE

    async def pieces_of(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> list[SegmentRange]:
        return await self._runner.run(self._segment_ranges(key, row, start, end))


class DirectReader(Client):
    """Knows no broker; what it shares with those that do is that it runs."""

    def __init__(self, world: World, name: str = "direct reader") -> None:
        super().__init__(world)
        self.name = name
        broker = world.rng.choice(world.brokers)
        self._reader = _Reader(world, world.runner(broker))

    async def run(self) -> None:
        world, rng = self.world, self.world.rng
        while not world.is_healed:
            await world.clock.sleep_s(rng.uniform(0, rng.choice(PAUSES_S_MAX)))
            if world.live_topics:
                topic_id = rng.choice(list(world.live_topics))
                number = rng.randrange(world.live_topics[topic_id][1])
                with suppress(LogstoreError):
                    await self.read_some(Partition(topic_id, number))

    async def read_some(self, partition: Partition) -> bool:
        """One plan and what it names; whether it brought anything."""
        world, history = self.world, self.world.history
        acked_end, key = history.acked_end(partition), TopicPartition(*partition)
        view = await self._reported(partition, self._reader.view(key))
        if view is None:
            return False
        history.answer_fetch(partition, view.end, acked_end, self.name)
        offset = history.position(self.name, partition)
        if offset < view.log_start:
            offset = view.log_start
            history.assign(self.name, partition, offset)
            world.seen["out of range"] += 1
        end = min(view.end, offset + RECORDS_MAX)
        if offset >= end:
            return False
        segment_ranges = await self._reported(
            partition, self._reader.pieces_of(key, view.row, offset, end), offset
        )
        history.poll(self.name, partition, self._records(segment_ranges, offset, end))
        world.seen["read without a broker"] += 1
        return True

    def _records(
        self, segment_ranges: list[SegmentRange], start: int, end: int
    ) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for segments in segment_ranges:
            try:
                batches = self._fetch(segments)
            except SegmentGone:
                self.world.seen["segment gone: resolved again"] += 1
                raise
            for batch in batches:
                found += [(r.offset, r.value) for r in records_of_batches(bytes(batch.data))]
        return [one for one in found if start <= one[0] < end]

    def _fetch(self, segments: SegmentRange) -> list[FoundBatch]:
        """As `read_batches`, without its threads: one reader starts hundreds of them."""
        seq_range = SeqRange(segments.chain, segments.first_seq, segments.last_seq, (segments,))
        places = places_of([seq_range])
        with TaskSegments(self.world.objects, places, threads=InOrder()) as fetched:
            return list(batches_of(fetched, seq_range))

    async def _reported(self, partition: Partition, call: Any, offset: int | None = None) -> Any:
        """`call`; what it calls corrupt must lie below what may be gone."""
        try:
            return await call
        except (Corrupt, NotFound) as error:
            history, world = self.world.history, self.world
            is_gone = history.is_deleted(partition.topic_id) or (
                offset is not None and offset < history.start_asked(partition)
            )
            if is_gone:
                world.seen[f"trimmed under a plan: {type(error).__name__}"] += 1
            elif not world.plan.flips_bits:
                world.violate(f"{self.name} got: {error!r} {partition} offset={offset}")
            raise
