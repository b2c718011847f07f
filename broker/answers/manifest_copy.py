"""One adopt request, from its manifest to the commit: reads, checks, copies, waits.

    manifest ─► judged ─┬─ here already ───────────────────────────────┬─► committed ─► answer
                        └─ counted ─► indexes in order ─► windows:     │
                       ranges read ─► slices: checked ─► parts appended ┘

`logstore.protocol.sinks.verdicts` decides what is copied, `logstore.protocol.sinks.adopt_plan` in
which order, and `logstore.protocol.sinks.staged_counts` how many batches each partition gets in
all. A partition is judged again before each part, without a pause between: several requests may be
about the same batch, since a driver that had no answer asks again; each goes on where the other
was.

An outcome counts once its segment is committed. Partitions that were not reached stay `BUSY`.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from broker.answers.broker import Broker
from broker.answers.decisions.topic_rules import TopicRules
from broker.answers.staged_checks import CheckedPart
from broker.answers.staged_fronts import AT_ONCE_MAX
from broker.answers.staged_manifests import KeptManifest
from broker.answers.staged_windows import WindowPart, read_window
from logstore.epoch.leader import AlreadyAdopted, CopyFrom, Leader, NotLeading
from logstore.epoch.log import Topic
from logstore.errors import Fenced, LogstoreError, Unavailable
from logstore.formats.levels import A_SINK, SINK_LEVEL
from logstore.formats.staged_object import StagedIndex, StagedRange, StagedRef
from logstore.formats.staging_keys import SinkBatch
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.sinks.adopt_plan import (
    Bite,
    CopyPlan,
    CopyWindow,
    fronts_at_once,
)
from logstore.protocol.sinks.staged_counts import StagedCounts
from logstore.protocol.sinks.staged_reads import ReadManifest
from logstore.protocol.sinks.verdicts import SinkRefusal, judge_manifest
from logstore.wire.adopt import AdoptOutcome, AdoptPartitionResult

NOT_DONE = "not done in time; ask again"
FULL = "too much is not committed yet; ask again after a pause"


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
    batches_done: int = 0
    """Of the batch, as the leader judged last."""

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
    broker: Broker
    batch: SinkBatch
    placed: Sequence[AdoptTarget]
    _waiting: list[_AwaitedOutcome] = field(default_factory=list)
    _by_partition: dict[TopicPartition, AdoptTarget] = field(default_factory=dict)

    async def run(self, kept: KeptManifest, timeout_s: float) -> None:
        """Adopt, and fill in the results. Raises nothing of what a manifest may be."""
        self._by_partition = {one.partition: one for one in self.placed}
        try:
            async with asyncio.timeout(timeout_s):
                await self._adopt(kept)
                await self._committed(max((one.seq for one in self._waiting), default=-1))
        except TimeoutError:
            pass
        except Fenced as error:
            for one in self._left():
                one.refuse_for(error)
        self._settle()
        for one in self.placed:
            if one.result.outcome == AdoptOutcome.BUSY:
                one.result.progress = kept.counts.objects_done + one.batches_done

    async def _adopt(self, kept: KeptManifest) -> None:
        await self._judge(kept.read)
        writer = self.broker.log.writer
        # A driver that saw the level finalized may ask before this broker has heard of it: BUSY.
        why = FULL if writer.is_full else writer.why_not_written(SINK_LEVEL, A_SINK)
        if why is not None:
            for one in self._left():
                one.refuse(AdoptOutcome.BUSY, why)
        if self._left():
            async with self.broker.adoptions:
                try:
                    await self._copy_all(kept)
                except LogstoreError as error:
                    self._refuse_the_rest(error)

    def _refuse_the_rest(self, error: LogstoreError) -> None:
        """But for partitions where another request has copied the batch since: its staging may be
        gone for that (`logstore.protocol.sinks.staging_disposal`)."""
        for one in self._left():
            if self._batches_done(one, None) is not None:
                one.refuse_for(error)

    def _left(self) -> list[AdoptTarget]:
        return [one for one in self.placed if not one.is_decided]

    async def _judge(self, read: ReadManifest) -> None:
        head, made_ms = read.manifest.head, read.manifest.header.created_ms
        async for one in self.broker.turns.share(self.placed):
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
            one.batches_done = verdict.batches_done
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

    async def _copy_all(self, kept: KeptManifest) -> None:
        counts, turns = kept.counts, self.broker.turns
        async with kept.counting:
            await self._count(kept)
        done: dict[TopicPartition, int] = {}
        async for one in turns.share(self._left()):
            here = self._batches_done(one, counts.batches_total(one.partition))
            if here is not None:
                done[one.partition] = here
        if not done:
            return  # another request did it while this one waited
        start = await turns.finish(counts.start_of(done))
        await self._copy_from(start.number, CopyPlan(start.before, done), kept)

    async def _count(self, kept: KeptManifest) -> None:
        """Count what no request about this manifest has counted yet."""
        counts, turns = kept.counts, self.broker.turns
        if counts.is_complete:
            return

        async def count(_: StagedRef, index: StagedIndex) -> bool:
            await turns.finish(counts.add(index))
            return True

        refs = kept.read.manifest.head.objects[counts.objects_done :]
        await self.broker.staged_fronts.visit_all(self.batch, refs, self._at_once(counts), count)
        await turns.finish(counts.finish())

    async def _copy_from(self, number: int, plan: CopyPlan, kept: KeptManifest) -> None:
        """Copy from object `number` on. Holds the bytes of one window, and indexes read ahead."""
        manifest = kept.read.manifest
        window = CopyWindow()

        async def take(key: str, body_at: int, ranges: Sequence[StagedRange]) -> None:
            nonlocal window
            async for bite in self.broker.turns.share(plan.bites(key, body_at, ranges)):
                if bite is None:
                    continue
                if not window.has_room(bite):
                    await self._copy(window.bites, kept)
                    window = CopyWindow()
                window.add(bite)

        async def visit(ref: StagedRef, index: StagedIndex) -> bool:
            await take(ref.name.key(self.batch), index.header.body_at, index.ranges)
            return bool(self._left())

        refs, at_once = manifest.head.objects[number:], self._at_once(kept.counts)
        await self.broker.staged_fronts.visit_all(self.batch, refs, at_once, visit)
        await take(manifest.key, manifest.header.body_at, manifest.inline)
        await self._copy(window.bites, kept)

    def _at_once(self, counts: StagedCounts) -> Callable[[], int]:
        return lambda: fronts_at_once(counts.index_bytes_max, AT_ONCE_MAX)

    async def _copy(self, window: Sequence[Bite], kept: KeptManifest) -> None:
        """Read a window; check and append it slice by slice."""
        left = [bite for bite in window if not self._by_partition[bite.partition].is_decided]
        if not left:
            return
        async with aclosing(read_window(self.broker, left, kept.read, self._rules)) as slices:
            async for parts in slices:
                await self._append_all(parts, kept)

    async def _append_all(self, parts: Sequence[WindowPart], kept: KeptManifest) -> None:
        for part in parts:
            if isinstance(part.checked, LogstoreError):
                self._by_partition[part.partition].refuse_for(part.checked)
        async for part in self.broker.turns.share(parts):
            if isinstance(part.checked, CheckedPart):
                await self._append(part.checked, kept.counts.batches_total(part.partition))

    def _rules(self, partition: TopicPartition) -> TopicRules:
        return self.broker.rules(self._by_partition[partition].topic)

    async def _append(self, part: CheckedPart, batches_total: int) -> None:
        """Append one part, which others may have copied since it was read."""
        one, writer = self._by_partition[part.partition], self.broker.log.writer
        if one.is_decided:
            return
        if writer.is_full:
            await self._committed(writer.appended_seq)
        done = self._batches_done(one, batches_total)
        if done is None or done >= part.first + len(part.batches):
            return
        if done < part.first:
            one.refuse(AdoptOutcome.BUSY, f"batches before these are missing: done={done}")
            return
        rules, batches = self.broker.rules(one.topic), part.batches[done - part.first :]
        try:
            one.leader.adopt(
                self.batch,
                batches,
                batches_done=done,
                batches_total=batches_total,
                append_time_ms=self.broker.stamps.now_ms() if rules.stamps_append_time else None,
            )
        except LogstoreError as error:
            one.refuse_for(error)
            return
        self.broker.adopt_counts.note_copied(len(batches), sum(len(data) for data, _ in batches))
        one.is_copied_here = True
        self._batches_done(one, batches_total)

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
