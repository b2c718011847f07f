"""Carries out the controller's actions: one call per kind of action, each repeatable."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from broker.cluster.decisions.placement import Successors
from broker.cluster.decisions.row_steps import fence_broker, reassign
from broker.cluster.decisions.view import (
    Action,
    DeleteTopic,
    Reassign,
    Remind,
    RemoveOrphan,
    StepDown,
    TakeOver,
)
from broker.cluster.log_port import ClusterLog
from logstore.errors import LogstoreError, Refused
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from logstore.histogram import Histogram
from logstore.protocol.leading.takeover import PartlyTaken, RecoveredPartition, Successor, take_over
from logstore.protocol.rules.disposal import Ruling
from logstore.protocol.steps import Gather, Steps
from logstore.protocol.topics.life import UnknownTopic, delete_topic
from logstore.protocol.topics.orphans import remove_orphans
from logstore.protocol.topics.witnesses import judge_half_done
from logstore.runners.step_runner import outcome_of

logger = logging.getLogger(__name__)

_FIGURES = re.compile(r" \w+=\S+")


@dataclass(slots=True)
class ActionCounts:
    """Actions of this controller since its broker started."""

    takeovers: int = 0
    partitions_taken: int = 0
    moves: int = 0
    replica_changes: int = 0
    reminders: int = 0
    deletions: int = 0
    orphans: int = 0
    failures: int = 0


class TakeoverPart(StrEnum):
    FENCE = "fence"
    """Its broker's row, and the wait until its read lease is over."""
    SEAL = "seal"
    """The seal, and the chain read to it."""
    ROWS = "rows"
    """The partitions' rows, and the checkpoint."""


class TakeoverFigures:
    """Takeovers of whole chains that this broker ended."""

    def __init__(self) -> None:
        self.by_reason: Counter[str] = Counter()
        """The reason is the text of the log line, without figures."""
        self.seconds = {part: Histogram() for part in TakeoverPart}

    def ended(self, reason: str, moments: Sequence[float]) -> None:
        """`moments` are when it began, and when each part ended."""
        self.by_reason[_FIGURES.sub("", reason)] += 1
        for part, (began_s, ended_s) in zip(TakeoverPart, pairwise(moments), strict=True):
            self.seconds[part].add(ended_s - began_s)


class ActionExecutor:
    """`chains` are the chains' rows as last read, updated after each action."""

    def __init__(self, log: ClusterLog) -> None:
        self.counts = ActionCounts()
        self.takeovers = TakeoverFigures()
        self.chains: dict[int, ChainRow] = {}
        self.successors = Successors((), {})
        self._led: dict[bytes, str] = {}
        """Topics whose rows may not be removed, and why."""
        self._log = log
        self._runner = log.runner

    async def act(self, action: Action) -> None:
        """Raises `LogstoreError`; the next look of a controller decides it again."""
        match action:
            case TakeOver():
                await self._take_over(action)
            case Reassign():
                await self.reassign([action])
            case Remind(place):
                self.counts.reminders += 1
                await self._log.publish([FeedChange(place.topic, place.topic_id, place.partition)])
            case DeleteTopic(topic, topic_id, reason, lacks_rows):
                if lacks_rows:
                    await self._require_half_done(topic_id)
                logger.warning("removing topic: name=%s reason=%s", topic, reason)
                try:
                    await self._runner.run(delete_topic(topic, topic_id))
                except UnknownTopic:
                    return  # another broker was faster
                self.counts.deletions += 1
                await self._log.publish([FeedChange(topic, topic_id)])
            case RemoveOrphan(topic_id, rows):
                await self._remove_orphans(topic_id, rows)
            case StepDown():
                raise AssertionError("only who holds the lease can step down")

    async def _remove_orphans(self, topic_id: bytes, rows: Mapping[int, PartitionRow]) -> None:
        if topic_id in self._led:
            raise Refused(self._led[topic_id])
        logger.warning(
            "removing the rows of partitions without a topic: topic_id=%s partitions=%d",
            topic_id.hex(),
            len(rows),
        )
        ruling = await self._runner.run(remove_orphans(self._log.cluster_id, topic_id, rows))
        if ruling is not None:
            self._check_half_done(topic_id, ruling)
            self.counts.orphans += len(rows)

    async def _require_half_done(self, topic_id: bytes) -> None:
        """Raises `Refused` where other rows of the topic were lost. Chains are asked once."""
        if topic_id in self._led:
            raise Refused(self._led[topic_id])
        ruling = await self._runner.run(judge_half_done(self._log.cluster_id, topic_id))
        self._check_half_done(topic_id, ruling)

    def _check_half_done(self, topic_id: bytes, ruling: Ruling) -> None:
        if not ruling.may:
            refusal = f"rows of topic {topic_id.hex()} are lost: {ruling.why}; run: logstore fsck"
            self._led[topic_id] = refusal
            raise Refused(refusal)

    # Takeover

    async def _take_over(self, action: TakeOver) -> None:
        log, chain = self._log, action.chain
        if action.probe:
            await log.check_not_sealed()  # does the store answer us?
        logger.warning(
            "taking over: chain=%d broker=%d reason=%s", chain, action.broker, action.reason
        )
        clock = self._runner.clock
        began_s = clock.monotonic_s()
        if not await self._fence(action):
            return
        fenced_s = sealed_s = clock.monotonic_s()

        def on_sealed() -> None:
            nonlocal sealed_s
            sealed_s = clock.monotonic_s()

        row = self.chains.get(chain) or ChainRow(broker=action.broker, status=ChainStatus.OPEN)
        if row.status is ChainStatus.OPEN:
            self.chains[chain] = replace(row, status=ChainStatus.FENCED)
        announced: list[asyncio.Task[LogstoreError | None]] = []
        async with asyncio.TaskGroup() as tasks:

            def on_taken(taken: Sequence[RecoveredPartition]) -> None:
                announced.append(tasks.create_task(outcome_of(self._announce(chain, taken))))

            steps = take_over(
                log.cluster_id,
                chain,
                log.me.broker,
                self._successor_of,
                log.followed_chain,
                on_sealed,
                on_taken,
            )
            outcome = await outcome_of(self._runner.run(steps))
        trouble = outcome if isinstance(outcome, PartlyTaken) else None
        if isinstance(outcome, PartlyTaken):
            taken = outcome.taken
        elif isinstance(outcome, LogstoreError):
            raise outcome
        else:
            taken = outcome
            self.chains[chain] = replace(row, status=ChainStatus.SEALED)
            self.counts.takeovers += 1
            moments = (began_s, fenced_s, sealed_s, clock.monotonic_s())
            self.takeovers.ended(action.reason, moments)
        self.counts.partitions_taken += len(taken)
        for error in (trouble, *(one.result() for one in announced)):
            if error is not None:
                raise error
        took_ms = int((clock.monotonic_s() - began_s) * 1000)
        logger.warning("took over: chain=%d partitions=%d ms=%d", chain, len(taken), took_ms)

    async def _announce(self, chain: int, taken: Sequence[RecoveredPartition]) -> None:
        """Lead what is ours of the partitions taken, and have others lead theirs: clients wait."""
        await self._log.lead_recovered(taken)
        changes = [*self._changes(taken), *self._still_naming(chain)]
        await self._log.publish(changes, is_urgent=True)

    async def _fence(self, action: TakeOver) -> bool:
        """Whether the chain's broker can renew no more, so that it answers no more reads."""
        log, row = self._log, self._log.brokers.get(action.broker)
        if row is None or row.epoch != action.chain:
            return True  # a later start, or none, has its row
        if row.status is BrokerStatus.STOPPED:
            return True  # it said itself that it renews no more
        is_silent = log.liveness.is_silent(action.broker)
        is_fenced = row.status is BrokerStatus.FENCED
        may_hold_lease = log.liveness.is_alive(action.broker) or (is_fenced and not is_silent)
        heartbeat = row.heartbeat if is_silent else None
        steps = fence_broker(action.broker, row.epoch, heartbeat)
        if not await self._runner.run(steps):
            logger.warning(
                "not taken over, the broker is alive: broker=%d epoch=%d", action.broker, row.epoch
            )
            return False
        if may_hold_lease:
            # It has renewed until now, and may answer fetches until that runs out.
            await self._runner.clock.sleep_s(log.liveness.lease_s)
        return True

    def _successor_of(self, topic_id: bytes, partition: int, row: PartitionRow) -> Successor:
        """The chosen broker was alive when we last looked; failing all others, it is this one."""
        broker = self.successors.choose(row)
        info = self._log.brokers.get(self._log.me.broker if broker is None else broker)
        if broker is None or broker == self._log.me.broker or info is None:
            return Successor(self._log.me.broker, self._log.epoch)
        return Successor(broker, info.epoch)

    def _changes(self, taken: Sequence[RecoveredPartition]) -> list[FeedChange]:
        topics = self._log.topics_by_id
        return [
            FeedChange(topics[one.topic_id].name, one.topic_id, one.partition)
            for one in taken
            if one.topic_id in topics
        ]

    def _still_naming(self, chain: int) -> list[FeedChange]:
        """Partitions that we believe to name a chain of which all that name it were just taken.

        Their rows have changed without a hint: a write that was given up as lost came late.
        """
        return [
            FeedChange(topic.name, topic.topic_id, number)
            for topic in self._log.topics.values()
            for number, row in enumerate(topic.rows)
            if row.chain == chain
        ]

    # Moves

    async def reassign(self, actions: Sequence[Reassign]) -> None:
        """All together, with one write of the change feed."""
        outcomes = await self._runner.run(
            _together([reassign(action.place, action.wanted) for action in actions])
        )
        changes, errors = [], []
        for action, outcome in zip(actions, outcomes, strict=True):
            if isinstance(outcome, LogstoreError):
                errors.append(outcome)
            elif outcome:
                self._report(action)
                place = action.place
                changes.append(FeedChange(place.topic, place.topic_id, place.partition))
        if changes:
            await self._log.publish(changes)
        if errors:
            raise errors[0]

    def _report(self, action: Reassign) -> None:
        place, wanted = action.place, action.wanted
        is_move = wanted.target not in (NO_BROKER, place.row.target)
        self.counts.moves += is_move
        self.counts.replica_changes += not is_move
        logger.info(
            "%s: topic=%s partition=%d leader=%d target=%d replicas=%s reason=%s",
            "moving" if is_move else "changing replicas",
            place.topic,
            place.partition,
            place.row.broker,
            wanted.target,
            ",".join(map(str, wanted.reassigning or wanted.replicas)),
            action.reason,
        )


def _together(steps: Sequence[Steps[bool]]) -> Steps[Sequence[bool | LogstoreError]]:
    results: Sequence[bool | LogstoreError] = yield Gather(steps)
    return results
