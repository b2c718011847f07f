"""The log as a broker sees it: topics, partitions led, appending, reading, one broker epoch long.

    async with asyncio.TaskGroup() as tasks:
        log = await Log.start(opened, me, settings, tasks)
        ...
        await log.close(timeout_s=10)

What a client is promised goes through `leader.append` and `when_committed`, nothing else. When the
chain is fenced, `fenced` is set and the process should stop: a successor serves the same data.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from logstore.chains.flush import FlushSettings, MiB
from logstore.chains.replay import ChainState, SegmentSpan
from logstore.chains.writer import ChainLimits, ChainWriter, Waiter
from logstore.errors import ConditionFailed, LogstoreError
from logstore.index.lookup import FoundRows, IndexCache
from logstore.index.partition import ChainCheckpoints, locate_max_timestamp, locate_time
from logstore.index.rows import row_at
from logstore.log.cache import SegmentCache
from logstore.log.leader import Leader
from logstore.log.read import Chunk, Reader, read_in_memory
from logstore.log.start import LEASE_S, Self, Started, start
from logstore.log.topics import UnknownTopic, create_topic, delete_topic
from logstore.open import OpenLog
from logstore.perform import Performer
from logstore.records.lookup import first_record_at_or_after, record_with_max_timestamp
from logstore.registry.store import Condition
from logstore.rows import BROKER, PartitionRow, TopicRow

__all__ = ["FlushSettings", "Log", "LogSettings", "Self", "Topic"]

HEARTBEATS_PER_LEASE = 3
PRODUCER_ID_SHIFT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    flush: FlushSettings = field(default_factory=FlushSettings)
    limits: ChainLimits = field(default_factory=ChainLimits)
    cache_bytes_max: int = 128 * MiB
    """Segment bodies kept in memory: the tail, and what lagging consumers read. At 100 MB/s the
    default covers a second of tail; consumers further back cost one GET per segment and broker."""


@dataclass(slots=True)
class Topic:
    """One life of a topic. `leaders` are its partitions, in order; all are led here."""

    name: str
    topic_id: bytes
    configs: Mapping[str, str]
    leaders: list[Leader]
    is_deleted: bool = False


class Log:
    def __init__(
        self,
        performer: Performer,
        me: Self,
        started: Started,
        settings: LogSettings,
        tasks: asyncio.TaskGroup,
        cluster_id: bytes,
    ) -> None:
        self.epoch = started.opened.epoch
        self.me = me
        self.cluster_id = cluster_id
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.cache = SegmentCache(performer, bytes_max=settings.cache_bytes_max)
        self._performer = performer
        self._tasks = tasks
        self._heartbeat = started.heartbeat
        self._producer_count = 0
        self.writer = ChainWriter(
            _opened_chain(cluster_id, started),
            broker=me.broker,
            performer=performer,
            settings=settings.flush,
            tasks=tasks,
            sink=self.cache,
            limits=settings.limits,
        )
        self._checkpoints = ChainCheckpoints(
            IndexCache(), live={self.epoch: lambda: self.writer.durable_checkpoints}
        )
        self._reader = Reader(performer, self.cache, self._checkpoints)

    @staticmethod
    async def start(
        opened: OpenLog, me: Self, settings: LogSettings, tasks: asyncio.TaskGroup
    ) -> "Log":
        """Open a chain, take over what this broker led before, be ready to serve it."""
        cluster_id = opened.identity.cluster_id
        started = await opened.performer.run(start(cluster_id, me))
        log = Log(opened.performer, me, started, settings, tasks, cluster_id)
        log._lead(started)
        tasks.create_task(log.writer.run())
        tasks.create_task(log._keep_heartbeat())
        await log._flushed()
        return log

    @property
    def fenced(self) -> asyncio.Event:
        return self.writer.fenced

    # Topics

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Raises `TopicExists`, `BadTopicName`, `BadPartitionCount`, or as the registry does."""
        new = await self._performer.run(
            create_topic(name, partitions, configs, broker=self.me.broker, chain=self.epoch)
        )
        known = self.topics.get(name)
        if known is not None and known.topic_id == new.row.topic_id:
            return known
        topic = self._add_topic(name, new.row, dict(enumerate(new.partitions)))
        for leader in topic.leaders:
            leader.take_empty()
        # A fenced broker may still write rows, but it must not say that it leads the topic.
        await self._committed(self.writer.open_seq)
        return topic

    async def delete_topic(self, name: str) -> None:
        """Raises `UnknownTopic`, or as the registry does."""
        topic = self.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"no such topic: name={name}")
        await self._performer.run(delete_topic(name, topic.topic_id))
        if self.topics.get(name) is topic:
            del self.topics[name]
        self.topics_by_id.pop(topic.topic_id, None)
        topic.is_deleted = True
        for leader in topic.leaders:
            leader.retire()

    def _add_topic(self, name: str, row: TopicRow, partitions: Mapping[int, PartitionRow]) -> Topic:
        leaders = [
            Leader(self.writer, row.topic_id, number, partitions[number])
            for number in sorted(partitions)
        ]
        topic = Topic(name, row.topic_id, row.configs, leaders)
        self.topics[name] = self.topics_by_id[row.topic_id] = topic
        return topic

    def _lead(self, started: Started) -> None:
        taken: dict[bytes, dict[int, PartitionRow]] = {}
        for one in started.inheritances:
            taken.setdefault(one.topic_id, {})[one.partition] = one.row
        states = {(one.topic_id, one.partition): one.state for one in started.inheritances}
        for name, row in started.topics.items():
            topic = self._add_topic(name, row, taken.get(row.topic_id, {}))
            for leader in topic.leaders:
                leader.take(states[row.topic_id, leader.partition])

    async def _flushed(self) -> None:
        """Wait until what has been appended so far is committed. Raises `Fenced`."""
        self.writer.flush()
        await self._committed(self.writer.open_seq - 1)

    async def _committed(self, seq: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: LogstoreError | None) -> None:
            if not future.done():
                future.set_exception(error) if error else future.set_result(None)

        self.writer.when_committed(seq, done)
        await future

    # Producing

    def new_producer_id(self) -> int:
        """Never given before in this cluster: epochs are not reused, nor is the counter."""
        self._producer_count += 1
        return (self.epoch << PRODUCER_ID_SHIFT) + self._producer_count

    def when_committed(self, seq: int, waiter: Waiter) -> None:
        """Call `waiter` once segment `seq` is committed, with the error if it never will be."""
        self.writer.when_committed(seq, waiter)

    # Reading

    def read_in_memory(
        self, leader: Leader, offset: int, up_to: int, bytes_max: int
    ) -> Chunk | None:
        """Batches from the one that holds `offset`, below `up_to`; None: use `read`."""
        return read_in_memory(leader, self.cache, self.epoch, offset, up_to, bytes_max)

    async def read(self, leader: Leader, offset: int, up_to: int, bytes_max: int) -> Chunk:
        return await self._reader.read(leader, self.epoch, offset, up_to, bytes_max)

    async def offset_for_time(
        self, leader: Leader, timestamp: int, up_to: int
    ) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record below `up_to` at or after it."""
        found = await self._rows_for_time(leader, timestamp)
        if found is None or row_at(found.rows, found.number).base_offset >= up_to:
            return None
        batch = await self._reader.batch(found)
        record = first_record_at_or_after(batch, timestamp)
        return None if record is None else (*record, found.key.leader_epoch)

    async def _rows_for_time(self, leader: Leader, timestamp: int) -> FoundRows | None:
        while True:
            known = self.writer.durable_checkpoints
            found = await self._performer.run(
                locate_time(
                    self._checkpoints,
                    leader.topic_id,
                    leader.partition,
                    leader.stretches,
                    timestamp,
                )
            )
            if found is not None:
                return found
            if known == self.writer.durable_checkpoints:
                here = leader.rows_for_time(timestamp)
                return None if here is None else FoundRows(leader.key, self.epoch, *here)
            # Rows went from memory into a checkpoint meanwhile: they were in neither.

    async def offset_of_max_timestamp(
        self, leader: Leader, up_to: int
    ) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the record with the largest timestamp."""
        at = await self._offset_with_max_timestamp(leader, up_to)
        if at < 0:
            return None
        found = await self._reader.rows(leader, self.epoch, at)
        record = record_with_max_timestamp(await self._reader.batch(found))
        return None if record is None else (*record, found.key.leader_epoch)

    async def _offset_with_max_timestamp(self, leader: Leader, up_to: int) -> int:
        """An offset in its batch; -1 in an empty partition."""
        while True:
            known = self.writer.durable_checkpoints
            best = await self._performer.run(
                locate_max_timestamp(
                    self._checkpoints, leader.topic_id, leader.partition, leader.stretches
                )
            )
            if known == self.writer.durable_checkpoints:
                here = leader.max_timestamp_below(up_to)
                return max(best, here, key=lambda found: found[0])[1]

    # Living and ending

    async def _keep_heartbeat(self) -> None:
        """Say that this loop is alive; a row that is no longer ours means that we are fenced."""
        while not self.fenced.is_set():
            await self._performer.clock.sleep_s(LEASE_S / HEARTBEATS_PER_LEASE)
            self._heartbeat += 1
            try:
                await self._performer.registry.update_if(
                    BROKER,
                    str(self.me.broker),
                    {"heartbeat": self._heartbeat},
                    Condition("epoch", "=", self.epoch),
                )
            except ConditionFailed:
                self.writer.stop()
            except LogstoreError:
                continue  # the registry is away; safety does not rest on it, and it will be back

    async def close(self, timeout_s: float) -> bool:
        """Commit what was appended and checkpoint it; False when that took too long."""
        return await self.writer.close(timeout_s)


def _opened_chain(cluster_id: bytes, started: Started) -> ChainState:
    opening = started.opened.opening
    return ChainState(
        cluster_id=cluster_id,
        epoch=started.opened.epoch,
        broker=started.broker,
        next_seq=1,
        last_nonce=opening.nonce,
        created_ms=opening.created_ms,
        spans=[SegmentSpan(len(opening.front), opening.size_bytes)],
    )
