"""The log as a broker sees it: topics, partitions led, appending, reading, one broker epoch long.

    async with asyncio.TaskGroup() as tasks:
        log = await Log.start(opened, me, settings, tasks)
        ...
        await log.close(timeout_s=10)

Only `leader.append` and `when_committed` decide what is acknowledged to a client. When the
chain is fenced, `fenced` is set and this `Log` is over: another broker leads its partitions, and
`broker.process.life` starts the next epoch in the same process.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from logstore.epoch.appender import Waiter
from logstore.epoch.catalog import Catalog, LeadershipChanges, Topic
from logstore.epoch.confirmations import Ask
from logstore.epoch.draining import Successor, drain
from logstore.epoch.events import Events
from logstore.epoch.feed import Feed
from logstore.epoch.followers import Followers
from logstore.epoch.forgetting import NOTHING, forget_ended, shorten_rows
from logstore.epoch.leadership_transitions import LeadershipTransitions, committed
from logstore.epoch.live_brokers import LiveBrokers
from logstore.epoch.log_settings import LogSettings
from logstore.epoch.membership import Heartbeats, Membership
from logstore.epoch.shared_rows import SharedRows
from logstore.epoch.topic_changes import TopicChanges
from logstore.epoch.watch import Watch
from logstore.epoch.writer import ChainWriter
from logstore.formats.broker_row import BrokerRow, BrokerStatus
from logstore.formats.chain_state import ChainState, SegmentSpan
from logstore.formats.feed_row import FeedChange
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.chain.flush import FlushSettings
from logstore.protocol.leading.start import BrokerInfo, Started, begin, finish
from logstore.protocol.leading.takeover import RecoveredPartition
from logstore.protocol.partitions.epoch_ranges import ChainCheckpoints
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.partitions.lookup import FoundRows
from logstore.protocol.rows.metadata import read_brokers
from logstore.protocol.rows.view import RegistryUpdate
from logstore.protocol.rules.liveness import Liveness
from logstore.protocol.steps import sliced
from logstore.reading.brokers.cache import SegmentCache
from logstore.reading.brokers.history import History
from logstore.reading.brokers.read import Chunk, FoundRecord, Reader, read_in_memory
from logstore.reading.brokers.readable import Readable
from logstore.reading.brokers.tiers import Tiers
from logstore.reading.planning.table_batches import Compression
from logstore.runners.step_runner import outcome_of
from logstore.wiring.open import OpenLog

__all__ = ["BrokerInfo", "FlushSettings", "Log", "LogSettings", "Topic"]

PRODUCER_ID_SHIFT = 32


class Log:
    def __init__(
        self,
        opened: OpenLog,
        me: BrokerInfo,
        started: Started,
        heartbeats: Heartbeats,
        settings: LogSettings,
        tasks: asyncio.TaskGroup,
    ) -> None:
        """Each part is made of those above it."""
        runner = self.runner = opened.runner
        cluster_id = self.cluster_id = opened.identity.cluster_id
        self.epoch = started.opened.epoch
        self.me, self.url = me, opened.location.url  # which never has credentials
        self.rows = SharedRows()
        self._tasks = tasks
        self._producer_count = 0
        events = self._events = Events()
        self.cache = SegmentCache(runner, bytes_max=settings.cache_bytes_max)
        writer = self.writer = ChainWriter(
            _opened_chain(cluster_id, started),
            broker=me.broker,
            runner=runner,
            settings=settings.flush,
            tasks=tasks,
            sink=self.cache,
            limits=settings.limits,
            producer_expiration_ms=settings.producer_expiration_ms,
        )
        catalog = self._catalog = Catalog(me.broker, self.epoch)
        cluster = self._cluster = LiveBrokers(me.broker, runner.clock, events)
        self.live_brokers = cluster.live_brokers
        self.mark_dead = cluster.mark_dead
        self.on_death = cluster.on_death
        self._checkpoints = ChainCheckpoints(
            IndexCache(settings.index_cache_bytes_max),
            live={self.epoch: lambda: writer.checkpoints.durable},
        )
        grace_s = settings.delete_grace_s
        followers = self._followers = Followers(
            cluster_id, runner, self._checkpoints, tasks, delete_grace_s=grace_s
        )
        self._membership = Membership(runner, writer, catalog, followers, heartbeats)
        self._watch = Watch(runner, catalog, cluster, events)
        feed = self._feed = Feed(runner, catalog, cluster, self._watch, tasks)
        self.publish = feed.publish
        self.read_feed = feed.read
        leading = self._leading = LeadershipTransitions(
            runner, writer, catalog, followers, cluster, feed, events
        )
        changes = TopicChanges(runner, writer, catalog, leading, cluster, feed, events)
        self.create_topic = changes.create_topic
        self.create_partitions = changes.create_partitions
        self.delete_topic = changes.delete_topic
        self._segments = self._new_segments(settings)
        self.history = History(runner, opened.tables, settings.history)
        self._tiers = Tiers(runner, self._segments, self.history)
        events.rows.listen(self._on_update)
        events.leaderships.listen(self._follow_up)

    def _new_segments(self, settings: LogSettings) -> Reader:
        checkpoints, followers = self._checkpoints, self._followers
        segments = Reader(
            self.runner,
            self.cache,
            checkpoints,
            followers,
            ahead_bytes_max=settings.read_ahead_bytes_max,
            whole_bytes_max=settings.whole_segment_bytes,
        )
        self._reading_ahead = self._tasks.create_task(segments.ahead.run())
        return segments

    @staticmethod
    async def start(
        opened: OpenLog, me: BrokerInfo, settings: LogSettings, tasks: asyncio.TaskGroup
    ) -> "Log":
        """Open a chain, take over what this broker led before, be ready to serve it."""
        cluster_id = opened.identity.cluster_id
        runner = opened.runner
        begun = await runner.run(begin(cluster_id, me))
        heartbeats = Heartbeats(runner, me.broker, begun.opened.epoch, begun.heartbeat)
        beating = tasks.create_task(heartbeats.run_while_starting())
        try:
            started = await runner.run(finish(cluster_id, me, begun))
        finally:
            beating.cancel()
        log = Log(opened, me, started, heartbeats, settings, tasks)
        update = started.update
        log.writer.follow_level(update.format_level, me.level_max)
        log.rows.take(update)
        changes = log._catalog.apply(update)
        await runner.run(sliced(log._leading.lead_recovered(started.recovered)))
        log._follow_up(changes)
        log._cluster.observe(await runner.run(read_brokers()))
        tasks.create_task(log.writer.run())
        tasks.create_task(log._membership.run())
        tasks.create_task(log._leading.run())
        tasks.create_task(log._watch.run(log.fenced))
        await log._flushed()
        taken = {one.topic_id for one in started.recovered}
        await log.publish(
            [FeedChange(t.name, t.topic_id) for t in changes.changed if t.topic_id in taken]
        )
        return log

    @property
    def fenced(self) -> asyncio.Event:
        return self.writer.fenced

    # The cluster

    @property
    def brokers(self) -> Mapping[int, BrokerRow]:
        """Every broker's row, dead or alive, as last read."""
        return self._cluster.brokers

    @property
    def liveness(self) -> Liveness:
        return self._cluster.liveness

    @property
    def topics(self) -> Mapping[str, Topic]:
        """All that are served by this cluster, by name."""
        return self._catalog.topics

    @property
    def topics_by_id(self) -> Mapping[bytes, Topic]:
        return self._catalog.topics_by_id

    @property
    def feed_version(self) -> int:
        """How many changes of the registry's feed are known here: the last one's number."""
        return self._catalog.version

    @property
    def format_level(self) -> int:
        """The finalized format level, as far as it is known here."""
        return self.writer.format_level

    @property
    def claim_count(self) -> int:
        """Partitions that this broker began to lead."""
        return self._leading.claim_count

    @property
    def release_count(self) -> int:
        """Partitions that it handed over."""
        return self._leading.release_count

    @property
    def has_no_room(self) -> bool:
        """Whether the disk of the store or the registry was full at the last attempt to write."""
        return self.writer.full_disk.is_full or self._membership.has_no_room

    @property
    def has_read_lease(self) -> bool:
        """Whether what this broker knows of the log is still its own to say (safety rule 9)."""
        return self._membership.has_read_lease

    async def check_not_sealed(self) -> None:
        """Before saying what might be out of date. Raises `Fenced`, or as the store does."""
        await self._membership.check_not_sealed()

    def on_change(self, callback: Callable[[Topic], None]) -> None:
        """Call back whenever a topic came, went, or has other rows or leaders here."""
        self._events.topics.listen(callback)

    def look_again(self) -> None:
        """Read the change feed now instead of at its next turn."""
        self._watch.look_again()

    def ask_others_by(self, ask: Ask) -> None:
        """`ask` has another broker read the feed; without it their rows alone are looked at."""
        self._feed.confirmations.ask = ask

    async def lead_recovered(self, taken: Sequence[RecoveredPartition]) -> None:
        """Lead the partitions of a takeover, without reading their state again."""
        partitions = {one.topic_partition: one.row for one in taken}
        changes = self._catalog.apply(RegistryUpdate(0, {}, partitions, is_written=True))
        try:
            await self.runner.run(sliced(self._leading.lead_recovered(taken)))
        finally:
            self._follow_up(changes)
        self.writer.flush()

    def followed_chain(self, epoch: int) -> ChainState | None:
        """A copy of another broker's chain as far as it is followed here, to be read on."""
        return self._followers.chain_state(epoch)

    def _on_update(self, update: RegistryUpdate) -> None:
        self.writer.follow_level(update.format_level, self.me.level_max)
        rows = update.partitions.values()
        if any(row is not None and row.target == self.me.broker for row in rows):
            self._watch.hurry()  # the next news may be that it is ours
        self.rows.take(update)
        self._follow_up(self._catalog.apply(update))

    def _follow_up(self, changes: LeadershipChanges) -> None:
        self._leading.begin(changes)
        if changes.lost:
            # Our partitions have other leaders: the chain must be sealed. See, rather than wait.
            self._tasks.create_task(self._look_quietly())
        for topic in changes.changed:
            self._follow(topic)
            self._events.topics.report(topic)

    async def _look_quietly(self) -> None:
        await outcome_of(self.check_not_sealed())

    def _follow(self, topic: Topic) -> None:
        """Follow the partitions of which this broker is a replica and another one the leader."""
        me = self.me.broker
        wanted = {
            number: row
            for number, row in enumerate(() if topic.is_deleted else topic.rows)
            if me in row.replicas and row.broker != me
        }
        topic.followers = self._followers.follow(topic.topic_id, wanted)

    async def forget_ended(self, durable_ends: Mapping[TopicPartition, int] = NOTHING) -> int:
        """Leave epoch ranges no longer needed out of rows and checkpoints; their number.

        `durable_ends` are the ends of tables by safety rule 7: rows do not list epoch ranges below.
        Segments that were fetched ahead of consumers that are gone leave memory, too.
        To be called periodically. Raises `Fenced`, or as store and registry do.
        """
        self._segments.ahead.forget_idle()
        await shorten_rows(self.runner, self._catalog.leaders(), durable_ends)
        live = frozenset(self._catalog.topics_by_id)
        return await forget_ended(self.runner, self.writer, self._catalog.leaders(), live)

    async def _flushed(self) -> None:
        """Wait until what has been appended so far is committed. Raises `Fenced`."""
        self.writer.flush()
        await committed(self.writer, self.writer.appended_seq)

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
        self,
        partition: Readable,
        offset: int,
        up_to: int,
        bytes_max: int,
        consumer: str | None = None,
    ) -> Chunk | None:
        """Batches from the one that holds `offset`, below `up_to`; None: use `read`."""
        chunk = read_in_memory(partition, self.cache, offset, up_to, bytes_max)
        if chunk is not None and consumer is not None:
            ahead = self._segments.ahead
            ahead.note_in_memory(consumer, partition, offset, chunk.end_offset, up_to)
        return chunk

    async def read(
        self,
        partition: Readable,
        offset: int,
        up_to: int,
        bytes_max: int,
        compression: Compression = "producer",
        consumer: str | None = None,
    ) -> Chunk:
        """The same from the store; `compression` is that of batches made from the topic's table.

        `consumer` names the one that reads, if it is likely to go on: segments are read ahead then.
        """
        return await self._tiers.read(partition, offset, up_to, bytes_max, compression, consumer)

    @property
    def read_ahead_bytes(self) -> int:
        """Of segments that are fetched ahead of consumers, or on their way, and not read."""
        return self._segments.ahead.byte_count

    @property
    def index_cache_bytes(self) -> int:
        """Of fronts and index pages of checkpoints in memory."""
        return self._checkpoints.cache.byte_count

    def doubt(self, partition: Readable) -> None:
        """A partition followed here could not be read: leaders send no consumers for a while."""
        self._followers.doubt(partition.epoch_ranges[-1].chain)

    async def offset_for_time(
        self, partition: Readable, timestamp: int, up_to: int
    ) -> FoundRecord | None:
        """The first record below `up_to` at or after `timestamp`."""
        return await self._tiers.record_at_time(partition, timestamp, up_to)

    async def index_rows(self, partition: Readable, offset: int) -> FoundRows:
        """Index rows of batches from the one that holds `offset` on.

        At least one, rarely all, up to 100,000. Raises `Retryable` where the log has none any more.
        """
        return await self._segments.rows(partition, offset)

    async def offset_of_max_timestamp(self, partition: Readable, up_to: int) -> FoundRecord | None:
        """The record with the largest timestamp."""
        return await self._tiers.record_with_max_timestamp(partition, up_to)

    async def begin_of_segments(self, partition: Readable) -> int:
        """The first offset that segments hold; what is below is in the topic's table."""
        return await self._tiers.begin_of_segments(partition)

    async def table_end(self, partition: Readable) -> int | None:
        """Up to where the topic's table is known to hold the partition; None: it has none."""
        return await self._tiers.table_end(partition)

    # Ending

    async def drain(self, timeout_s: float, successors: Callable[[], Successor]) -> bool:
        """Hand over all that `successors` has a broker for (`draining`); whether all is gone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                parts = (self._membership, self._watch, self._catalog, self._leading)
                await drain(*parts, successors)
        return not any(True for _ in self._catalog.leaders())

    async def close(self, timeout_s: float) -> bool:
        """Commit all appended batches and write a checkpoint; False when that took too long."""
        self._followers.stop()
        self._reading_ahead.cancel()
        self.history.close()
        is_committed = await self.writer.close(timeout_s)
        if is_committed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await outcome_of(self._membership.renew(BrokerStatus.STOPPED))
        return is_committed


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
