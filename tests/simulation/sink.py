"""A Spark sink in the simulated world: stages batches, commits manifests, asks leaders to adopt.

It writes to the main topic as its driver does, knows only what a driver may know, and forgets it:
now and then it asks again for a batch that is adopted, or for one before that. Objects of tasks
that lost a race lie beside the others, and a sweeper runs at any moment. The history knows its
batches as those of an idempotent producer.
"""

import asyncio
from dataclasses import dataclass, field

from logstore.errors import LogstoreError
from logstore.formats.manifest import ManifestHead, ManifestTopic, encode_manifest
from logstore.formats.staged_object import StagedBuilder, StagedRef
from logstore.formats.staging_keys import SinkBatch, StagedName, sink_hash
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.sinks.staging_sweep import sweep_staging
from logstore.records.encode import encode_batch, records_of
from logstore.testing.history import Partition, Sent
from logstore.wire.adopt import (
    ADOPT_KEY,
    AdoptOutcome,
    AdoptPartition,
    AdoptPartitionResult,
    AdoptRequest,
    AdoptTopic,
)
from tests.simulation.kafka import MAIN, Client
from tests.simulation.world import World

ADOPT_S = 8.0
SWEEP_S = 30.0
DONE = (AdoptOutcome.ADOPTED, AdoptOutcome.ALREADY)


@dataclass
class StagedBatch:
    key: str
    nonce: bytes
    sent: dict[Partition, list[Sent]] = field(default_factory=dict)


class SinkDriver(Client):
    def __init__(self, world: World, name: str = "sink") -> None:
        super().__init__(world)
        self.name = name
        self.is_done = False
        self._batches: list[StagedBatch] = []

    async def run(self) -> None:
        rng = self.world.rng
        while not self.world.is_healed:
            await self.pause(self.world.plan.pause_s_max)
            await self._next_batch()
            if rng.random() < 0.3:
                await self._sweep()
        await self._next_batch()
        self.is_done = True

    async def _next_batch(self) -> None:
        rng, world = self.world.rng, self.world
        batch = self._stage(len(self._batches))
        self._batches.append(batch)
        await self._adopt(batch)
        if rng.random() < 0.3:
            world.seen["sink asked again"] += 1
            await self._adopt(rng.choice(self._batches[-2:]))

    # Tasks

    def _stage(self, number: int) -> StagedBatch:
        world, rng = self.world, self.world.rng
        topic_id, (name, partitions) = next(
            (topic_id, found) for topic_id, found in world.live_topics.items() if found[0] == MAIN
        )
        batch = SinkBatch(sink_hash(self.name), number)
        staged = StagedBatch(batch.manifest_key, rng.randbytes(16))
        tasks = [StagedBuilder() for _ in range(rng.randint(0, 2))]
        inline, rows = StagedBuilder(), dict[TopicPartition, int]()
        wanted = sorted(rng.sample(range(partitions), rng.randint(1, partitions)))
        for number_of_task, builder in enumerate([*tasks, inline]):
            for partition in wanted if builder is inline or rng.random() < 0.7 else ():
                where = TopicPartition(topic_id, partition)
                for _ in range(rng.randint(1, 3)):
                    values = self._send(staged, Partition(*where), number, number_of_task)
                    now_ms = world.timestamps[values[0]]
                    records = records_of([(None, value) for value in values], timestamp=now_ms)
                    builder.add(where, encode_batch(records))
                    rows[where] = rows.get(where, 0) + len(values)
        refs = [self._put(batch, task, builder) for task, builder in enumerate(tasks)]
        world.objects.create(StagedName(99, 1, 0).key(batch), [b"of a task that lost a race"])
        head = ManifestHead(
            query_id=self.name,
            run_id="",
            topics=[ManifestTopic(name, topic_id, partitions)],
            rows=rows,
            objects=[ref for ref in refs if ref is not None],
        )
        parts = encode_manifest(
            batch,
            head,
            inline,
            cluster_id=self._cluster_id,
            nonce=staged.nonce,
            created_ms=world.clock.now_ms(),
        )
        world.objects.create(batch.manifest_key, parts)
        return staged

    @property
    def _cluster_id(self) -> bytes:
        identity = self.world.identity
        assert identity is not None
        return identity.cluster_id

    def _send(
        self, staged: StagedBatch, partition: Partition, batch: int, task: int
    ) -> tuple[bytes, ...]:
        sent = staged.sent.setdefault(partition, [])
        values = tuple(
            b"%s %d.%d.%d.%d.%d" % (self.name.encode(), batch, task, *partition[1:], len(sent), n)
            for n in range(self.world.rng.randint(1, 3))
        )
        now_ms = self.world.clock.now_ms()
        self.world.timestamps.update(dict.fromkeys(values, now_ms))
        sent.append(
            self.world.history.send(
                partition, values, idempotent=True, sender=self.name, timestamp_ms=now_ms
            )
        )
        return values

    def _put(self, batch: SinkBatch, task: int, builder: StagedBuilder) -> StagedRef | None:
        if not builder.size_bytes:
            return None
        nonce = self.world.rng.randbytes(16)
        parts = builder.freeze(
            batch,
            cluster_id=self._cluster_id,
            nonce=nonce,
            created_ms=self.world.clock.now_ms(),
        )
        name = StagedName(task, 0, 0)
        self.world.objects.create(name.key(batch), parts)
        return StagedRef(name, nonce, sum(map(len, parts)))

    # The driver

    async def _adopt(self, batch: StagedBatch) -> None:
        """Ask until every partition has the batch."""
        left, is_stale = set(batch.sent), False
        while left:
            for partition in sorted(left):
                result = await self._ask(batch, partition, is_stale=is_stale)
                if result is not None and self._is_adopted(batch, partition, result):
                    left.discard(partition)
            is_stale = True
            if left:
                await self.pause(0.5)

    async def _ask(
        self, batch: StagedBatch, partition: Partition, *, is_stale: bool
    ) -> AdoptPartitionResult | None:
        found = await self.leader_of(partition, is_stale=is_stale)
        if found is None:
            return None
        wire, place = found
        asked = AdoptTopic(
            partition.topic_id, [AdoptPartition(partition.number, place.leader_epoch)]
        )
        timeout_ms = self.world.rng.choice((50, 1_000, 5_000))
        request = AdoptRequest(batch.key, batch.nonce, timeout_ms, [asked])
        response = await self.ask(wire, ADOPT_KEY, 0, request, ADOPT_S)
        return None if response is None else response.topics[0].partitions[0]

    def _is_adopted(
        self, batch: StagedBatch, partition: Partition, result: AdoptPartitionResult
    ) -> bool:
        outcome = AdoptOutcome(result.outcome)
        self.world.seen[f"adopt: {outcome.name}"] += 1
        if outcome in (AdoptOutcome.NOT_LEADER, AdoptOutcome.BUSY):
            return False
        if outcome is AdoptOutcome.INVALID and self.world.plan.flips_bits:
            return False  # a read was damaged on its way: the query fails, and is started again
        if outcome not in DONE:
            self.world.violate(f"adopt was answered {outcome.name}: {result.message}")
            return True
        sent = batch.sent[partition]
        if result.first_offset >= 0:
            offset = result.first_offset
            is_whole = result.end_offset - offset == sum(len(one.values) for one in sent)
            for one in sent if is_whole else sent[:1]:
                self.world.history.ack(one, offset)
                offset += len(one.values)
        return True

    async def _sweep(self) -> None:
        try:
            swept = await self.call(
                lambda log: log.runner.run(sweep_staging(log.cluster_id, 0)), SWEEP_S
            )
        except (LogstoreError, TimeoutError, asyncio.CancelledError):
            return
        self.world.seen["staged objects swept"] += swept.objects
