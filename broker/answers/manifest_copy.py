"""One adopt request, from its manifest to the commit: reads, checks, copies, waits.

    manifest ─► judged ─┬─ here already ───────────────────────────────┬─► committed ─► answer
                        └─ fronts of all objects ─► windows, each:     │
                              ranges read ─► checked ─► parts appended ┘

`logstore.protocol.sinks` decides what is copied, `logstore.protocol.adopt_plan` in which order. A
partition is judged again before each part, without a pause between: several requests may be about
the same batch, since a driver that had no answer asks again; each goes on where the other was.

An outcome counts once its segment is committed. Partitions that were not reached stay `BUSY`.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.answers.services import Services
from broker.answers.staged_checks import CheckedBite, check_bites
from logstore.epoch.leader import AlreadyAdopted, CopyFrom, Leader, NotLeading
from logstore.epoch.log import Topic
from logstore.errors import Fenced, LogstoreError, Unavailable
from logstore.formats.staged_object import StagedIndex
from logstore.formats.staging_keys import SinkBatch
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.adopt_plan import (
    Bite,
    PartitionPlan,
    StagedRead,
    bytes_of,
    plan_partitions,
    reads_of,
    windows,
)
from logstore.protocol.sinks import SinkRefusal, judge_manifest
from logstore.protocol.staged_reads import ReadManifest, read_staged_bytes, read_staged_index
from logstore.wire.adopt import AdoptOutcome, AdoptPartitionResult

READS_AT_ONCE = 16
"""Of one request; all reads of a broker share `store_reads`."""

NOT_DONE = "not done in time; ask again"
FULL = "too much is not committed yet; ask again after a pause"

Fetched = dict[str, list[tuple[StagedRead, memoryview]]]


@dataclass(slots=True)
class AdoptTarget:
    """A partition of the request that this broker leads."""

    partition: TopicPartition
    topic: Topic
    leader: Leader
    result: AdoptPartitionResult
    is_decided: bool = False
    """Nothing more is copied; the outcome may wait for a commit."""
    is_copied_here: bool = False

    def refuse(self, outcome: AdoptOutcome, message: str) -> None:
        self.is_decided = True
        self.result.outcome, self.result.message = outcome, message

    def refuse_for(self, error: LogstoreError) -> None:
        if isinstance(error, NotLeading | Fenced):
            self.refuse(AdoptOutcome.NOT_LEADER, str(error))
        elif isinstance(error, Unavailable):
            self.refuse(AdoptOutcome.BUSY, str(error))
        else:
            self.refuse(AdoptOutcome.INVALID, str(error))


@dataclass(slots=True)
class _AwaitedOutcome:
    """An outcome that counts once segment `seq` is committed."""

    placed: AdoptTarget
    outcome: AdoptOutcome
    first_offset: int
    end_offset: int
    seq: int


@dataclass(slots=True)
class ManifestCopy:
    broker: Services
    batch: SinkBatch
    placed: Sequence[AdoptTarget]
    _waiting: list[_AwaitedOutcome] = field(default_factory=list)
    _by_partition: dict[TopicPartition, AdoptTarget] = field(default_factory=dict)

    async def run(self, read: ReadManifest, timeout_s: float) -> None:
        """Adopt, and fill in the results. Raises nothing of what a manifest may be."""
        self._by_partition = {one.partition: one for one in self.placed}
        try:
            async with asyncio.timeout(timeout_s):
                await self._adopt(read)
                await self._committed(max((one.seq for one in self._waiting), default=-1))
        except TimeoutError:
            pass
        except Fenced as error:
            for one in self._left():
                one.refuse_for(error)
        self._settle()

    async def _adopt(self, read: ReadManifest) -> None:
        self._judge(read)
        if self._left() and self.broker.log.writer.is_full:
            for one in self._left():
                one.refuse(AdoptOutcome.BUSY, FULL)
        if self._left():
            async with self.broker.adoptions:
                try:
                    await self._copy_all(read)
                except LogstoreError as error:
                    self._refuse_the_rest(error)

    def _refuse_the_rest(self, error: LogstoreError) -> None:
        """But for partitions where another request has copied the batch since: its staging may be
        gone for that (`logstore.protocol.staging_disposal`)."""
        for one in self._left():
            if self._batches_done(one, None) is not None:
                one.refuse_for(error)

    def _left(self) -> list[AdoptTarget]:
        return [one for one in self.placed if not one.is_decided]

    def _judge(self, read: ReadManifest) -> None:
        head, made_ms = read.manifest.head, read.manifest.header.created_ms
        for one in self.placed:
            refusal = judge_manifest(self.batch.batch, made_ms, one.leader.chain_ms)
            if head.is_void:
                one.refuse(AdoptOutcome.INVALID, "the manifest is void: its staging was swept")
            elif one.partition not in head.rows:
                self._wait(one, AlreadyAdopted(-1, -1, -1))
            elif refusal is not None:
                ages = f"made_ms={made_ms} chain_ms={one.leader.chain_ms}"
                one.refuse(AdoptOutcome.INVALID, f"{refusal.value}: {self.batch} {ages}")
            else:
                self._batches_done(one, None)

    def _batches_done(self, one: AdoptTarget, batches_total: int | None) -> int | None:
        """How many batches the partition has of this one; None: it is decided now."""
        try:
            if one.topic.leaders.get(one.partition.partition) is not one.leader:
                raise NotLeading("the partition has another leader by now")
            verdict = one.leader.judge_sink(self.batch, batches_total)
        except LogstoreError as error:
            one.refuse_for(error)
            return None
        if isinstance(verdict, CopyFrom):
            return verdict.batches_done
        if isinstance(verdict, SinkRefusal):
            where = f"key={self.batch.manifest_key} partition={one.partition.partition}"
            one.refuse(AdoptOutcome.INVALID, f"{verdict.value}: {where}")
        else:
            self._wait(one, verdict)
        return None

    def _wait(self, one: AdoptTarget, here: AlreadyAdopted) -> None:
        one.is_decided = True
        outcome = AdoptOutcome.ADOPTED if one.is_copied_here else AdoptOutcome.ALREADY
        self._waiting.append(_AwaitedOutcome(one, outcome, *here))

    # Copying

    async def _copy_all(self, read: ReadManifest) -> None:
        manifest = read.manifest
        indexes = await self._read_indexes(read)
        wanted = [one.partition for one in self._left()]
        plans: list[tuple[PartitionPlan, int]] = []
        for plan in plan_partitions(self.batch, manifest, indexes, wanted):
            done = self._batches_done(self._by_partition[plan.partition], plan.batches_total)
            if done is not None:
                plans.append((plan, done))
        for window in windows(plans):
            await self._copy(window, read)

    async def _read_indexes(self, read: ReadManifest) -> list[StagedIndex]:
        runner, cluster_id = self.broker.log.runner, self.broker.log.cluster_id
        refs = read.manifest.head.objects
        found: dict[int, StagedIndex] = {}

        async def look(number: int) -> None:
            found[number] = await runner.run(
                read_staged_index(self.batch, refs[number], cluster_id)
            )

        await self._side_by_side([look(number) for number in range(len(refs))])
        return [found[number] for number in range(len(refs))]

    async def _copy(self, window: Sequence[Bite], read: ReadManifest) -> None:
        """Read and check a window, then append it."""
        broker, manifest = self.broker, read.manifest
        bites = [one for one in window if not self._of(one).is_decided]
        fetched = await self._fetch(reads_of(bites, manifest.key))
        whole = StagedRead(manifest.key, 0, len(read.data))
        fetched[manifest.key] = [(whole, memoryview(read.data))]
        items = [
            (one, bytes_of(one.source, fetched), broker.rules(self._of(one).topic)) for one in bites
        ]
        async with broker.record_checks:
            checked = await broker.loop.run_in_executor(
                None, check_bites, items, manifest.header.created_ms
            )
        for bite, found in zip(bites, checked, strict=True):
            if isinstance(found, LogstoreError):
                self._of(bite).refuse_for(found)
        async for found in broker.turns.share(checked):
            if isinstance(found, CheckedBite) and not self._of(found.bite).is_decided:
                await self._append(found)

    def _of(self, bite: Bite) -> AdoptTarget:
        return self._by_partition[bite.plan.partition]

    async def _fetch(self, reads: Sequence[StagedRead]) -> Fetched:
        fetched: Fetched = {read.key: [] for read in reads}

        async def fetch(read: StagedRead) -> None:
            steps = read_staged_bytes(read.key, read.start, read.end - read.start)
            data = await self.broker.log.runner.run(steps)
            fetched[read.key].append((read, memoryview(data)))

        await self._side_by_side([fetch(read) for read in reads])
        return fetched

    async def _append(self, checked: CheckedBite) -> None:
        """Append one part, which others may have copied since it was read."""
        bite, one, writer = checked.bite, self._of(checked.bite), self.broker.log.writer
        if writer.is_full:
            await self._committed(writer.appended_seq)
        done = self._batches_done(one, bite.plan.batches_total)
        if done is None or done >= bite.first + len(checked.batches):
            return
        if done < bite.first:
            one.refuse(AdoptOutcome.BUSY, f"batches before these are missing: done={done}")
            return
        rules = self.broker.rules(one.topic)
        try:
            one.leader.adopt(
                self.batch,
                checked.batches[done - bite.first :],
                batches_done=done,
                batches_total=bite.plan.batches_total,
                append_time_ms=self.broker.stamps.now_ms() if rules.stamps_append_time else None,
            )
        except LogstoreError as error:
            one.refuse_for(error)
            return
        one.is_copied_here = True
        self._batches_done(one, bite.plan.batches_total)

    # Waiting

    async def _committed(self, seq: int) -> None:
        """Wait until segment `seq` is committed. Raises `Fenced`."""
        committed: asyncio.Future[None] = self.broker.loop.create_future()

        def done(error: LogstoreError | None) -> None:
            if not committed.done():
                committed.set_exception(error) if error else committed.set_result(None)

        self.broker.log.when_committed(seq, done)
        await committed

    def _settle(self) -> None:
        """Give the outcomes that are committed; for the others it was fenced, or is slow."""
        writer = self.broker.log.writer
        for waiting in self._waiting:
            result = waiting.placed.result
            if waiting.seq < writer.committed_end:
                result.outcome, result.message = waiting.outcome, None
                result.first_offset = waiting.first_offset
                result.end_offset = waiting.end_offset
            elif writer.fenced.is_set():
                waiting.placed.refuse(AdoptOutcome.NOT_LEADER, "this broker was fenced")

    async def _side_by_side(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """All of `work`, some at a time; the first error ends it and is raised."""
        waiting = iter(work)

        async def take_turns() -> None:
            for one in waiting:
                async with self.broker.store_reads:
                    await one

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(READS_AT_ONCE, len(work))):
                    group.create_task(take_turns())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            for one in waiting:
                one.close()
