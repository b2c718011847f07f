"""Begins and ends leaderships, as the rows of the registry request.

    assume    a row names us → read the state at the end of the epoch range before
              → leadership-begin entry → serve
    release   a row names a target → leadership-end entry → its commit
              → the row names the target, or us again

Both are retried until they are done or the row has changed; an error of one partition does not
delay the others.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from logstore.epoch.appender import Waiter
from logstore.epoch.catalog import Catalog, LeadershipChanges, LeadershipClaim, Move, Topic
from logstore.epoch.events import Events
from logstore.epoch.feed import Feed
from logstore.epoch.followers import Followers
from logstore.epoch.leader import Leader
from logstore.epoch.live_brokers import LiveBrokers
from logstore.epoch.writer import ChainWriter
from logstore.errors import ConditionFailed, Fenced, LogstoreError
from logstore.formats.chain_state import EpochKey
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from logstore.formats.partition_state import PartitionState
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.leading.leadership import change_leader
from logstore.protocol.leading.recovery import recover
from logstore.protocol.leading.takeover import RecoveredPartition
from logstore.protocol.steps import Gather, Steps, sliced
from logstore.runners.step_runner import StepRunner
from logstore.slices import Slices, parts_of

AGAIN_FIRST_S, AGAIN_MAX_S = 0.25, 5.0
SLICE_PARTITIONS = 250
"""Begun to be led between two breaths: some 2 ms."""

logger = logging.getLogger(__name__)


class LeadershipTransitions:
    """Other brokers learn of changes by `feed`, this one by `events`: topics have other leaders."""

    def __init__(
        self,
        runner: StepRunner,
        writer: ChainWriter,
        catalog: Catalog,
        followers: Followers,
        cluster: LiveBrokers,
        feed: Feed,
        events: Events,
    ) -> None:
        self.claim_count = 0
        self.release_count = 0
        self._runner = runner
        self._cluster_id = writer.chain.cluster_id
        self._broker = writer.chain.broker
        self._writer = writer
        self._catalog = catalog
        self._followers = followers
        self._cluster = cluster
        self._feed = feed
        self._events = events
        self._claims: dict[TopicPartition, LeadershipClaim] = {}
        self._moves: dict[TopicPartition, Move] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    # What is to be done

    def begin(self, changes: LeadershipChanges) -> None:
        for claim in changes.claims:
            self._claims[TopicPartition(claim.topic.topic_id, claim.partition)] = claim
        for move in changes.moves:
            self._moves[move.leader.topic_partition] = move
        if changes.claims or changes.moves:
            self._idle.clear()
            self._wake.set()

    def lead_recovered(self, taken: Sequence[RecoveredPartition]) -> Slices[None]:
        """Lead the partitions of a takeover, with the states that it recovered."""
        for number, some in enumerate(parts_of(taken, SLICE_PARTITIONS)):
            if number:
                yield
            led: dict[bytes, Topic] = {}
            for one in some:
                topic = self._catalog.topics_by_id.get(one.topic_id)
                if topic is not None and one.row.chain == self._writer.chain.epoch:
                    self._become_leader(LeadershipClaim(topic, one.partition, one.row), one.state)
                    led[one.topic_id] = topic
            for topic in led.values():
                self._events.topics.report(topic)

    def lead_new(self, topic: Topic, rows: Mapping[int, PartitionRow]) -> Slices[None]:
        """Lead partitions without an earlier leader, by number; `rows` are those just made.

        One whose row has changed since may have had a leader, and records.
        """
        for number, some in enumerate(parts_of(tuple(rows.items()), SLICE_PARTITIONS)):
            if number:
                yield
            for partition, row in some:
                self._become_leader(LeadershipClaim(topic, partition, row), PartitionState())
            self._events.topics.report(topic)

    @property
    def is_idle(self) -> bool:
        """Whether all that is known of is claimed and moved."""
        return self._idle.is_set()

    async def until_idle(self) -> None:
        """Wait until all that is known of is claimed and moved."""
        await self._idle.wait()

    # Doing it

    async def run(self) -> None:
        """Until the chain is fenced. Errors of a single partition are retried, never raised."""
        again_s: float | None = None
        while not self._writer.fenced.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(again_s):
                    await self._wake.wait()
            self._wake.clear()
            claims, self._claims = self._claims, {}
            moves, self._moves = self._moves, {}
            try:
                await self._assume_leadership(claims)
                await self._move(moves)
            except Fenced:
                return
            except LogstoreError as error:  # store or registry are away
                logger.warning("leaderships are waiting: %s", error)
            if self._keep(claims, moves):
                again_s = AGAIN_FIRST_S if again_s is None else min(2 * again_s, AGAIN_MAX_S)
            else:
                again_s = None
            if not (self._claims or self._moves):
                self._idle.set()

    def _keep(
        self, claims: Mapping[TopicPartition, LeadershipClaim], moves: Mapping[TopicPartition, Move]
    ) -> bool:
        """Queue again what is not done, unless newer rows say something else; whether any was."""
        again = {
            key: claim
            for key, claim in claims.items()
            if key not in self._claims and self._is_wanted(claim)
        }
        stuck = {
            key: move
            for key, move in moves.items()
            if key not in self._moves and move.topic.leaders.get(key[1]) is move.leader
        }
        self._claims.update(again)
        self._moves.update(stuck)
        return bool(again or stuck)

    def _is_wanted(self, claim: LeadershipClaim) -> bool:
        return self._is_named(claim) and not self._is_over(claim)

    def _is_named(self, claim: LeadershipClaim) -> bool:
        """Whether its row names our chain, and nothing as new is led."""
        topic = claim.topic
        if topic.is_deleted or claim.partition >= topic.partition_count:
            return False
        row = topic.rows[claim.partition]
        led = topic.leaders.get(claim.partition)
        is_ours = row.chain == self._writer.chain.epoch
        return is_ours and (led is None or led.leader_epoch < row.leader_epoch)

    def _is_over(self, claim: LeadershipClaim) -> bool:
        """Whether this leadership has been here: it ended with its topic, of which a late put
        brought a row back before it is known here that the others are gone.
        """
        topic, number, _ = claim
        row = topic.rows[number]
        return self._writer.has_begun(EpochKey(topic.topic_id, number, row.leader_epoch))

    # Claims

    async def _assume_leadership(self, claims: Mapping[TopicPartition, LeadershipClaim]) -> None:
        wanted: dict[TopicPartition, PartitionRow] = {}
        for key, claim in claims.items():
            if not self._is_named(claim):
                continue
            if self._is_over(claim):
                logger.warning(
                    "partition is not led again, its topic was deleted and a row of it came back: "
                    "topic=%s partition=%d; if the topic is there, start this broker again",
                    claim.topic.name,
                    claim.partition,
                )
                continue
            wanted[key] = claim.topic.rows[claim.partition]
        if not wanted:
            return
        warm = self._followers.chain_state
        states = await self._runner.run(recover(self._cluster_id, self._broker, wanted, warm))
        now = {key: claims[key]._replace(row=row) for key, row in wanted.items()}
        await self._runner.run(sliced(self._lead_claimed(now, states)))
        self._writer.flush()

    def _lead_claimed(
        self,
        claims: Mapping[TopicPartition, LeadershipClaim],
        states: Mapping[TopicPartition, PartitionState | LogstoreError],
    ) -> Slices[None]:
        for number, some in enumerate(parts_of(tuple(states.items()), SLICE_PARTITIONS)):
            if number:
                yield
            led: dict[bytes, Topic] = {}
            for key, state in some:
                topic = claims[key].topic
                if isinstance(state, LogstoreError):
                    logger.warning(
                        "cannot become leader of a partition yet: topic=%s partition=%d %s",
                        topic.name,
                        key[1],
                        state,
                    )
                else:
                    self._become_leader(claims[key], state)
                    led[key.topic_id] = topic
            for topic in led.values():
                self._events.topics.report(topic)

    def _become_leader(self, claim: LeadershipClaim, state: PartitionState) -> None:
        """Unless the row is another leadership's by now, which has another state.

        It is to be reported to `events` after that.
        """
        topic, number, row = claim
        if not self._is_wanted(claim) or topic.rows[number].leader_epoch != row.leader_epoch:
            return
        leader = Leader(self._writer, topic.topic_id, number, row)
        leader.begin(state)
        topic.leaders[number] = leader
        self.claim_count += 1
        now = topic.rows[number]  # of this leadership, and maybe newer than what was claimed by
        leader.follow_row(now)
        if now.target not in (NO_BROKER, self._broker):
            self.begin(LeadershipChanges(moves=[Move(topic, leader, now.target)]))

    # Releases

    async def _move(self, moves: dict[TopicPartition, Move]) -> None:
        """Removes partitions that were handed over from `moves`."""
        led = {
            key: move
            for key, move in moves.items()
            if move.topic.leaders.get(key[1]) is move.leader and not move.topic.is_deleted
        }
        if not led:
            return
        seqs = [self._release(move.leader) for move in led.values()]
        self._writer.flush()
        await committed(self._writer, max(seqs))
        await self._feed.looked()  # a target may drain since it was chosen
        rows: Sequence[PartitionRow | LogstoreError] = await self._runner.run(
            _each([self._hand_over(move) for move in led.values()])
        )
        changes = []
        for (key, move), row in zip(led.items(), rows, strict=True):
            if isinstance(row, LogstoreError):
                logger.warning(
                    "released partition waits for its row: topic=%s partition=%d %s",
                    move.topic.name,
                    move.leader.partition,
                    row,
                )
                continue
            del moves[key]
            self.release_count += 1
            changes.append(FeedChange(move.topic.name, move.topic.topic_id, move.leader.partition))
        await self._feed.publish(changes, is_urgent=True)

    def _release(self, leader: Leader) -> int:
        """Once; tried again, its leadership-end entry is where it was."""
        return leader.release() if not leader.is_released else self._writer.open_seq - 1

    def _hand_over(self, move: Move) -> Steps[PartitionRow]:
        """Name the next leader: the target, or this broker again when that is gone or drains."""
        leader = move.leader
        chain = self._cluster.chain_of(move.target)
        broker = move.target if chain is not None else self._broker
        try:
            row = yield from change_leader(
                leader.topic_partition,
                leader.row,
                broker=broker,
                chain=self._writer.chain.epoch if chain is None else chain,
                start=leader.log_end,
                known_from=leader.leader_epoch,
            )
        except ConditionFailed as failed:
            if failed.current is None:
                raise
            return PartitionRow.of(failed.current)  # our chain was taken over
        return row


def _each(steps: Sequence[Steps[PartitionRow]]) -> Steps[Sequence[PartitionRow | LogstoreError]]:
    results: Sequence[PartitionRow | LogstoreError] = yield Gather(steps)
    return results


class CommitWaits(Protocol):
    """A chain's writer, or what stands in front of one."""

    def when_committed(self, seq: int, waiter: Waiter) -> None: ...


async def committed(writer: CommitWaits, seq: int) -> None:
    """Wait until segment `seq` is committed. Raises `Fenced`."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: LogstoreError | None) -> None:
        if not future.done():
            future.set_exception(error) if error else future.set_result(None)

    writer.when_committed(seq, done)
    await future
