"""Creates, grows and deletes topics, and leads at once those partitions that are ours.

Rows first (`logstore.protocol.topics`), then the own catalog, then the leaders here. A change is
published when the leadership-begin entries are committed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from logstore.epoch.catalog import Catalog, LeadershipChanges, Topic
from logstore.epoch.leadership_transitions import LeadershipTransitions, committed
from logstore.epoch.writer import ChainWriter
from logstore.errors import Invalid
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.steps import sliced
from logstore.protocol.topic_change import create_partitions
from logstore.protocol.topics import (
    NewTopic,
    RowsRemoved,
    UnknownTopic,
    create_topic,
    delete_topic,
    drop_lacking_topic,
)
from logstore.protocol.view import RegistryUpdate
from logstore.runners.step_runner import StepRunner
from logstore.slices import Slices, parts_of

SLICE_ROWS = 1_000
"""Made, or brought into the catalog, between two breaths: some 2 ms."""


class NotAlive(Invalid):
    """A broker that was to lead is not alive."""


class TopicChanges:
    def __init__(
        self,
        runner: StepRunner,
        cluster_id: bytes,
        broker: int,
        writer: ChainWriter,
        catalog: Catalog,
        leading: LeadershipTransitions,
        *,
        chain_of: Callable[[int], int | None],
        follow_up: Callable[[LeadershipChanges], None],
        on_update: Callable[[RegistryUpdate], None],
        publish: Callable[[Sequence[FeedChange]], Awaitable[None]],
    ) -> None:
        """`chain_of` is the chain of a live broker, None of others. The other three are the log's:
        what follows leadership changes and changed rows, and publication to other brokers.
        """
        self._runner = runner
        self._cluster_id = cluster_id
        self._broker = broker
        self._writer = writer
        self._catalog = catalog
        self._leading = leading
        self._chain_of = chain_of
        self._follow_up = follow_up
        self._on_update = on_update
        self._publish = publish

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

        Raises `TopicExists`, `BadTopicName`, `BadPartitionCount`, `NotAlive`, `RowsRemoved`, or as
        the registry.
        """
        wanted = assignments or [(self._broker,)] * partitions
        rows = await self._runner.run(sliced(self._new_rows(wanted)))
        try:
            new = await self._runner.run(create_topic(name, rows, configs, replicas=replicas))
        except RowsRemoved as removed:
            await self._runner.run(drop_lacking_topic(self._cluster_id, name, removed.topic_id))
            raise
        changes = await self._runner.run(sliced(self._enter(name, new)))
        return await self._begin_to_lead(name, changes, new)

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
        grown = await self._runner.run(create_partitions(name, topic.topic_id, rows))
        await self._publish([FeedChange(name, topic.topic_id)])
        partitions = {
            TopicPartition(topic.topic_id, number): row for number, row in grown.partitions.items()
        }
        self._on_update(RegistryUpdate(0, {name: grown.topic}, partitions, is_written=True))
        return topic

    def _new_rows(self, assignments: Sequence[Sequence[int]]) -> Slices[list[PartitionRow]]:
        rows: list[PartitionRow] = []
        for some in parts_of(assignments, SLICE_ROWS):
            if rows:
                yield
            for replicas in some:
                is_ours = replicas[0] == self._broker
                chain = self._writer.chain.epoch if is_ours else self._chain_of(replicas[0])
                if chain is None:
                    raise NotAlive(f"broker is not alive, it cannot lead: broker={replicas[0]}")
                rows.append(PartitionRow.new(replicas[0], chain, replicas))
        return rows

    def _enter(self, name: str, new: NewTopic) -> Slices[LeadershipChanges]:
        """The topic in the catalog, its partitions first: without it their rows change nothing."""
        keyed = [(TopicPartition(new.row.topic_id, n), row) for n, row in enumerate(new.partitions)]
        *most, last = parts_of(keyed, SLICE_ROWS)
        for some in most:
            self._catalog.apply(RegistryUpdate(0, {}, dict(some), is_written=True))
            yield
        return self._catalog.apply(RegistryUpdate(0, {name: new.row}, dict(last), is_written=True))

    async def _begin_to_lead(self, name: str, changes: LeadershipChanges, new: NewTopic) -> Topic:
        """Lead our partitions of a topic just created, and notify the other leaders."""
        topic = self._catalog.topics[name]
        chain = self._writer.chain.epoch
        ours = {number: row for number, row in enumerate(new.partitions) if row.chain == chain}
        try:
            await self._runner.run(sliced(self._leading.lead_new(topic, ours)))
            changes.claims.clear()
        finally:  # or what is not led yet would be led by no one
            self._follow_up(changes)
        if ours:
            # A fenced broker may still write rows, but it must not say that it leads the topic.
            # The watch may have claimed them by now, and nothing be open any more.
            await committed(self._writer, self._writer.appended_seq)
        await self._publish([FeedChange(name, topic.topic_id)])
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
            self._on_update(RegistryUpdate(0, {name: None}, partitions, is_written=True))
        await self._publish([FeedChange(name, topic.topic_id)])
