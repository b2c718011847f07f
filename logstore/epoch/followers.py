"""Follows the chains of other leaders: headers and indexes only, one bounded task per chain.

    followers = Followers(cluster_id, runner, checkpoints, tasks, delete_grace_s=3_600)
    topic.followers = followers.follow(topic.topic_id, {partition: its row, ...})

A look at the next seq is one GET: one a second and chain where nothing happens, about one per
segment and a quarter more where something does (`protocol.rules.pace`). Bytes of batches are not
read here but on fetch, through the segment cache.

Chains that no partition is followed in any more are kept for a while, a few at most: until a sealed
chain is summed up, and in the life of a chain that partitions were released from, the index of what
its leader wrote last is nowhere else. `epoch_range` enters others on demand.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logstore.epoch.followed import Followed
from logstore.errors import LogstoreError, Unavailable
from logstore.formats.chain_state import ChainState, EpochKey, EpochRange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment import Index
from logstore.protocol.chain.follow import Follower, copy_of
from logstore.protocol.partitions.epoch_ranges import ChainCheckpoints
from logstore.protocol.rules.pace import PollPace
from logstore.runners.step_runner import StepRunner, outcome_of

CAUGHT_UP_S = 10.0
"""As Kafka's replica.lag.time.max.ms, a third of it: the tail was seen this lately."""

TROUBLE_S = 60.0
"""When to try a chain again that cannot be followed."""

CHAINS_KEPT_MAX = 4
"""Chains in memory that no partition is followed in."""

SERVED_MAX = 1000
"""Chains in a broker's row. Each of them is that of a live broker, so there are few."""

ENTER_AT_ONCE = 4


class Followers:
    """All chains that one broker follows. `error` of a `Followed`: why its chain cannot be."""

    def __init__(
        self,
        cluster_id: bytes,
        runner: StepRunner,
        checkpoints: ChainCheckpoints,
        tasks: asyncio.TaskGroup,
        *,
        delete_grace_s: float,
    ) -> None:
        self._cluster_id = cluster_id
        self._delete_grace_s = delete_grace_s
        self._runner = runner
        self._checkpoints = checkpoints
        self._chains: dict[int, _Chain] = {}
        """The latest used last."""
        self._topics: dict[bytes, dict[int, Followed]] = {}
        self._entering = asyncio.Semaphore(ENTER_AT_ONCE)
        self._wake = asyncio.Event()
        self._task = tasks.create_task(self._run_all())

    def follow(self, topic_id: bytes, wanted: Mapping[int, PartitionRow]) -> dict[int, Followed]:
        """Follow these partitions of a topic, by their rows, and no others of it."""
        known = self._topics.get(topic_id, {})
        if not wanted and not known:
            return {}
        partitions: dict[int, Followed] = {}
        for partition, row in wanted.items():
            followed = known.get(partition)
            chain = self._chain(row.chain)
            if followed is None:
                followed = Followed(topic_id, partition, row, chain)
            elif followed.row != row:
                self._leave(followed)
                followed.follow_row(row, chain)
            chain.partitions[followed.key] = followed
            self._keep_reading(chain)
            partitions[partition] = followed
        for partition in known.keys() - wanted.keys():
            self._leave(known[partition])
            known[partition].retire()
        self._topics[topic_id] = partitions
        if not partitions:
            del self._topics[topic_id]
        self._forget_some()
        return dict(partitions)

    def chain_state(self, epoch: int) -> ChainState | None:
        """A copy of a chain as far as it was followed, to be read on; None if it was not."""
        chain = self._chains.get(epoch)
        if chain is None or not chain.is_entered or chain.error is not None:
            return None
        return copy_of(chain.follower.state)

    def served(self) -> tuple[int, ...]:
        """Chains whose tail was seen lately and that nothing keeps from being served, the first
        `SERVED_MAX`: a leader sends consumers here only for these.
        """
        chains = sorted(epoch for epoch, chain in self._chains.items() if chain.is_served)
        return tuple(chains[:SERVED_MAX])

    def doubt(self, epoch: int) -> None:
        """A consumer's fetch could not be read here: send it to the leader for a while."""
        chain = self._chains.get(epoch)
        if chain is not None:
            chain.doubted_s = self._runner.clock.monotonic_s()

    async def epoch_range(self, epoch: int, key: EpochKey, offset: int) -> EpochRange | None:
        """An epoch range with its index rows since the last checkpoint, read up to `offset`.

        For offsets that no checkpoint covers yet. Not to be changed. Raises as the store does.
        """
        chain = self._chain(epoch)
        epoch_range = chain.epoch_range(key)
        if epoch_range is None or epoch_range.end <= offset:
            await self._read(chain)
            epoch_range = chain.epoch_range(key)
        self._forget_some()
        return epoch_range

    def stop(self) -> None:
        """Look no more; what is known stays."""
        self._task.cancel()

    # Chains

    def _chain(self, epoch: int) -> "_Chain":
        chain = self._chains.pop(epoch, None)
        if chain is None:
            chain = _Chain(self._cluster_id, epoch, self._runner, self._delete_grace_s / 2)
        self._chains[epoch] = chain
        return chain

    def _leave(self, followed: Followed) -> None:
        chain = self._chains.get(followed.row.chain)
        if chain is None:
            return
        chain.partitions.pop(followed.key, None)
        if chain.is_unwanted:
            self._forget_live(chain)

    def _forget_live(self, chain: "_Chain") -> None:
        """Unless its owner is asked: earlier epoch ranges of our own chain are read here."""
        if self._checkpoints.live.get(chain.epoch) == chain.durable_checkpoints:
            del self._checkpoints.live[chain.epoch]

    def _forget_some(self) -> None:
        unwanted = [epoch for epoch, chain in self._chains.items() if chain.is_idle]
        for epoch in unwanted[: max(0, len(unwanted) - CHAINS_KEPT_MAX)]:
            del self._chains[epoch]

    def _keep_reading(self, chain: "_Chain") -> None:
        if chain.is_entered:
            self._checkpoints.live.setdefault(chain.epoch, chain.durable_checkpoints)
        if chain.is_to_be_started:
            self._wake.set()

    async def _run_all(self) -> None:
        """One task per chain that is wanted; each ends by itself."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                for chain in self._chains.values():
                    if chain.is_to_be_started:
                        chain.is_running = True
                        tasks.create_task(self._run(chain))
                await self._wake.wait()

    async def _run(self, chain: "_Chain") -> None:
        """Follow `chain` as long as any partition of it is wanted, or until it is sealed."""
        clock, pace = self._runner.clock, PollPace()
        try:
            while not chain.is_unwanted:
                outcome = await outcome_of(self._read(chain, pace.width))
                if isinstance(outcome, Unavailable):
                    await clock.sleep_s(pace.after(0).delay_s)
                elif isinstance(outcome, LogstoreError):
                    await clock.sleep_s(TROUBLE_S)
                elif chain.follower.is_sealed:
                    return
                else:
                    pace = pace.after(outcome)
                    await clock.sleep_s(pace.delay_s)
        finally:
            chain.is_running = False

    async def _read(self, chain: "_Chain", width: int | None = None) -> int:
        """Read new segments, at most `width`; their number. Raises as the store does."""
        try:
            if chain.is_entered:
                return await chain.read(width)
            async with self._entering:
                count = await chain.read(width)
        finally:
            self._forget_live(chain)
            if chain.is_entered and not chain.is_unwanted:
                self._checkpoints.live[chain.epoch] = chain.durable_checkpoints
        return count


@dataclass(eq=False, slots=True)
class _Chain:
    """One chain, the partitions followed in it, and the state of following it."""

    cluster_id: bytes
    epoch: int
    runner: StepRunner
    row_age_s_max: float
    """Half the grace of deletion: by an older row an absent segment may be deleted (rule 6)."""

    partitions: dict[EpochKey, Followed] = field(default_factory=dict)
    error: LogstoreError | None = None
    is_running: bool = False
    doubted_s: float = float("-inf")
    """When something of it could last not be read for a consumer."""
    follower: Follower = field(init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _tail_seen_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.follower = self._new_follower()

    def _new_follower(self) -> Follower:
        return Follower(
            self.cluster_id, self.epoch, row_age_s_max=self.row_age_s_max, may_list=True
        )

    @property
    def is_entered(self) -> bool:
        return self.follower.is_entered

    @property
    def is_unwanted(self) -> bool:
        return not self.partitions

    @property
    def is_to_be_started(self) -> bool:
        return not (self.is_unwanted or self.is_running or self.follower.is_sealed)

    @property
    def is_idle(self) -> bool:
        return not (self.partitions or self.is_running or self._lock.locked())

    @property
    def is_at_tail(self) -> bool:
        """Whether every segment of a moment ago has been read here."""
        seen_s = self._tail_seen_s
        return self.follower.is_sealed or self.runner.clock.monotonic_s() - seen_s < CAUGHT_UP_S

    @property
    def is_served(self) -> bool:
        is_sound = self.is_entered and self.error is None and not self.is_unwanted
        is_trusted = self.runner.clock.monotonic_s() - self.doubted_s >= TROUBLE_S
        return is_sound and is_trusted and self.is_at_tail

    def epoch_range(self, key: EpochKey) -> EpochRange | None:
        return self.follower.state.epoch_ranges.get(key) if self.is_entered else None

    def durable_checkpoints(self) -> Sequence[int]:
        return self.follower.checkpoints

    async def read(self, width: int | None) -> int:
        async with self._lock:
            try:
                count = await self._advance(width)
            except Unavailable:
                raise
            except LogstoreError as error:
                # The state was only partly applied; the next attempt begins at the checkpoint.
                self.error = error
                self.follower = self._new_follower()
                for followed in tuple(self.partitions.values()):
                    followed.chain_failed()
                raise
            self.error = None
            return count

    async def _advance(self, width: int | None) -> int:
        """One poll, or up to the tail.

        Partitions are notified of new segments, however it ended.
        """
        follower, perform = self.follower, self.runner.run
        entered_count = follower.entered_count
        if not follower.is_entered:
            count = await perform(follower.advance())
            self._tail_seen_s = self.runner.clock.monotonic_s()
            self._notify_all()
            return count
        touched: set[EpochKey] = set()

        def seen(index: Index) -> None:
            for entry in index.entries:
                touched.add(EpochKey(entry.topic_id, entry.partition, entry.leader_epoch))

        try:
            count = await perform(follower.advance(width=width or 1, segments_max=width, seen=seen))
        finally:
            for key in touched & self.partitions.keys():
                self.partitions[key].advance()
        if follower.entered_count > entered_count:
            self._notify_all()
        if width is None or count < width:
            self._tail_seen_s = self.runner.clock.monotonic_s()
        return count

    def _notify_all(self) -> None:
        for followed in tuple(self.partitions.values()):
            followed.advance()
