"""Creates, grows and deletes topics, and leads at once those partitions that are ours.

Rows first (`logstore.protocol.topics.life`), then the own catalog, then the leaders here. A change
is published when the leadership-begin entries are committed.

A name is served as one life of a topic (safety rule 20):

    deletion     returns when every live broker knows it (`confirmations`)
    creation     the row is put only when every live broker knows that the former life was deleted;
                 so no broker serves the one while any serves the other
    growth       returns when every live broker knows it, too

The answer to our own write may be late: others may have changed the row, and this broker may have
read that. Where anything was read since the write began, the row is read again and not the answer
believed.
"""

from collections.abc import Mapping, Sequence

from logstore.epoch.catalog import Catalog, LeadershipChanges, Topic
from logstore.epoch.confirmations import NotKnownEverywhere
from logstore.epoch.events import Events
from logstore.epoch.feed import Feed
from logstore.epoch.leadership_transitions import LeadershipTransitions, committed
from logstore.epoch.live_brokers import LiveBrokers
from logstore.epoch.writer import ChainWriter
from logstore.errors import Invalid, Retryable
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.protocol.rows.metadata import read_topic_row
from logstore.protocol.rows.view import RegistryUpdate
from logstore.protocol.steps import sliced
from logstore.protocol.topics.life import (
    FormerLife,
    NewTopic,
    RowsRemoved,
    UnknownTopic,
    create_topic,
    delete_topic,
    drop_lacking_topic,
)
from logstore.protocol.topics.topic_change import create_partitions
from logstore.runners.step_runner import StepRunner
from logstore.slices import Slices, parts_of

SLICE_ROWS = 1_000
"""Made, or brought into the catalog, between two breaths: some 2 ms."""

READS_MAX = 20
"""Then a row changes all the time, or the registry is slower than the changes."""

LIVES_MAX = 10
"""Lives of a name that others begin and end while it is created here."""


class NotAlive(Invalid):
    """A broker that was to lead is not alive."""


class TopicChanges:
    def __init__(
        self,
        runner: StepRunner,
        writer: ChainWriter,
        catalog: Catalog,
        leading: LeadershipTransitions,
        cluster: LiveBrokers,
        feed: Feed,
        events: Events,
    ) -> None:
        """Other brokers learn of changes by `feed`; this one by `events`, from their rows."""
        self._runner = runner
        self._cluster_id = writer.chain.cluster_id
        self._broker = writer.chain.broker
        self._writer = writer
        self._catalog = catalog
        self._leading = leading
        self._cluster = cluster
        self._feed = feed
        self._events = events

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        *,
        replicas: int = 1,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> Topic:
        """`assignments` are the brokers of each partition, its leader first; else all is ours.

        Raises `TopicExists`, `BadTopicName`, `BadPartitionCount`, `NotAlive`, `RowsRemoved`,
        `NotKnownEverywhere`, or as the registry.
        """
        wanted = assignments or [(self._broker,)] * partitions
        former: set[bytes] = set()
        for _ in range(LIVES_MAX):
            rows = await self._runner.run(sliced(self._new_rows(wanted)))
            read_count = self._catalog.read_count
            try:
                steps = create_topic(
                    name, rows, configs, replicas=replicas, is_over=former.__contains__
                )
                new = await self._runner.run(steps)
                break
            except FormerLife as life:
                await self._announce(name, life.topic_id)
                former.add(life.topic_id)
            except RowsRemoved as removed:
                await self._runner.run(drop_lacking_topic(self._cluster_id, name, removed.topic_id))
                raise
        else:
            raise Retryable(f"the topic is created and deleted by others: name={name}; try again")
        last = await self._runner.run(sliced(self._enter_most(new)))
        await self._check_current(name, new.row.topic_id, read_count)
        update = RegistryUpdate(0, {name: new.row}, last, is_written=True)
        return await self._begin_to_lead(
            name, self._catalog.apply(update), new, is_first_life=not former
        )

    async def _check_current(self, name: str, topic_id: bytes, read_count: int) -> TopicRow | None:
        """Read the topic's row unless nothing was read since `read_count`; returns it, if so.

        When this returns, no row that was read is newer. Raises `UnknownTopic` where this life of
        the topic is over.
        """
        row: TopicRow | None = None
        for _ in range(READS_MAX):
            if self._catalog.read_count == read_count:
                return row
            read_count = self._catalog.read_count
            row = await self._runner.run(read_topic_row(name))
            if row is None or row.topic_id != topic_id or row.status is not TopicStatus.LIVE:
                raise UnknownTopic(
                    f"topic was deleted as soon as it was changed: name={name} "
                    f"topic_id={topic_id.hex()}"
                )
        raise Retryable(f"the registry changes faster than it is read: topic={name}; try again")

    async def _announce(self, name: str, topic_id: bytes) -> None:
        """Publish a change, and return when every live broker knows it.

        Raises `NotKnownEverywhere`.
        """
        version = await self._feed.publish([FeedChange(name, topic_id)])
        if version is None:
            raise NotKnownEverywhere(
                f"the change is made, but could not be published to other brokers: topic={name}; "
                "they read it within a minute"
            )
        await self._feed.confirmed(version)

    async def create_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> Topic:
        """Let a topic grow to `count`; `assignments` are for the new ones. Raises as above."""
        topic = self._catalog.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"no such topic: name={name}")
        before = topic.partition_count
        wanted = assignments or [(self._broker,)] * (count - before)
        new = await self._runner.run(sliced(self._new_rows(wanted)))
        rows = dict(enumerate(new, before))
        read_count = self._catalog.read_count
        grown = await self._runner.run(create_partitions(name, topic.topic_id, rows))
        version = await self._feed.publish([FeedChange(name, topic.topic_id)])
        partitions = {
            TopicPartition(topic.topic_id, number): row for number, row in grown.partitions.items()
        }
        current = await self._check_current(name, topic.topic_id, read_count) or grown.topic
        self._events.rows.report(RegistryUpdate(0, {name: current}, partitions, is_written=True))
        if version is not None:
            await self._feed.confirmed(version)
        return topic

    def _new_rows(self, assignments: Sequence[Sequence[int]]) -> Slices[list[PartitionRow]]:
        rows: list[PartitionRow] = []
        for some in parts_of(assignments, SLICE_ROWS):
            if rows:
                yield
            for replicas in some:
                is_ours = replicas[0] == self._broker
                chain = self._writer.chain.epoch if is_ours else self._cluster.chain_of(replicas[0])
                if chain is None:
                    raise NotAlive(f"broker is not alive, it cannot lead: broker={replicas[0]}")
                rows.append(PartitionRow.new(replicas[0], chain, replicas))
        return rows

    def _enter_most(self, new: NewTopic) -> Slices[dict[TopicPartition, PartitionRow]]:
        """Enter partitions in the catalog: without the topic their rows change nothing.

        Returns those that are left, to be entered with the topic.
        """
        keyed = [(TopicPartition(new.row.topic_id, n), row) for n, row in enumerate(new.partitions)]
        *most, last = parts_of(keyed, SLICE_ROWS)
        for some in most:
            self._catalog.apply(RegistryUpdate(0, {}, dict(some), is_written=True))
            yield
        return dict(last)

    async def _begin_to_lead(
        self, name: str, changes: LeadershipChanges, new: NewTopic, *, is_first_life: bool
    ) -> Topic:
        """Lead our partitions of a topic just created, and notify the other leaders."""
        topic = self._catalog.topics[name]
        chain = self._writer.chain.epoch
        ours = {number: row for number, row in enumerate(new.partitions) if row.chain == chain}
        try:
            await self._runner.run(sliced(self._leading.lead_new(topic, ours)))
            changes.claims.clear()
        finally:  # or what is not led yet would be led by no one
            self._events.leaderships.report(changes)
        if ours:
            # A fenced broker may still write rows, but it must not say that it leads the topic.
            # The watch may have claimed them by now, and nothing be open any more.
            await committed(self._writer, self._writer.appended_seq)
        if is_first_life:  # others answer that they do not know it, and clients ask again
            await self._feed.publish([FeedChange(name, topic.topic_id)])
        else:
            await self._announce(name, topic.topic_id)
        return topic

    async def delete_topic(self, name: str) -> None:
        """Raises `UnknownTopic`, or as the registry does."""
        topic = self._catalog.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"no such topic: name={name}")
        await self._runner.run(delete_topic(name, topic.topic_id))
        if self._catalog.topics.get(name) is topic:
            partitions = {
                TopicPartition(topic.topic_id, n): None for n in range(topic.partition_count)
            }
            self._events.rows.report(RegistryUpdate(0, {name: None}, partitions, is_written=True))
        await self._announce(name, topic.topic_id)
