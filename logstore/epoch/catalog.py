"""This broker's view of all topics, and the effects of changed rows on its leaderships.

A partition row that names this broker's chain makes it the leader once it has claimed the partition
(`epoch.leadership_transitions`); one with a higher leader epoch ends its leadership. Rows never go
back (`protocol.rows.row_order`).

A topic is served only when all its partition rows exist: an incomplete creation is no topic.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from logstore.epoch.followed import Followed
from logstore.epoch.leader import Leader
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow
from logstore.protocol.rows.row_order import is_older_topic, newest_row
from logstore.protocol.rows.view import RegistryUpdate
from logstore.slices import Slices, parts_of

SLICE_ROWS = 1_000
"""Compared with those that are known: some 2 ms."""

K = TypeVar("K")
R = TypeVar("R")


@dataclass(slots=True, eq=False)
class Topic:
    """One life of a topic: its partitions in order, those led here, those followed here."""

    name: str
    topic_id: bytes
    configs: Mapping[str, str]
    replicas: int
    rows: list[PartitionRow]
    leaders: dict[int, Leader] = field(default_factory=dict)
    followers: dict[int, Followed] = field(default_factory=dict)
    is_deleted: bool = False

    @property
    def partition_count(self) -> int:
        return len(self.rows)


class LeadershipClaim(NamedTuple):
    """A partition whose row names this broker, which does not lead it yet."""

    topic: Topic
    partition: int
    row: PartitionRow


class Move(NamedTuple):
    """A partition led here that another broker is to lead."""

    topic: Topic
    leader: Leader
    target: int


@dataclass(slots=True)
class LeadershipChanges:
    """Effects of changed rows on this broker."""

    changed: list[Topic] = field(default_factory=list)
    claims: list[LeadershipClaim] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    lost: list[Leader] = field(default_factory=list)
    """Led here until now, and not released: the chain must have been sealed."""


class Catalog:
    def __init__(self, broker: int, chain: int) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.version = 0
        """Of the change feed, up to which all is known."""
        self.edit_count = 0
        """Changes that this broker made itself: rows read before one of them are out of date."""
        self.read_count = 0
        """Times that rows which others may have written came in: the answer to a write that began
        before one of them may be out of date."""
        self.chain = chain
        """The one that this broker writes."""
        self._broker = broker
        self._topic_rows: dict[str, TopicRow] = {}
        self._rows: dict[TopicPartition, PartitionRow] = {}
        self._names: dict[bytes, str] = {}

    def leaders(self) -> Iterator[Leader]:
        for topic in self.topics.values():
            yield from topic.leaders.values()

    def news(self, update: RegistryUpdate) -> Slices[RegistryUpdate]:
        """`update` without rows that are known; of all rows there are, few are news.

        Good until the next `apply`.
        """
        topics, partitions = self._named(update)
        new_topics = yield from _not_in(self._topic_rows, topics)
        new_rows = yield from _not_in(self._rows, partitions)
        return replace(update, topics=new_topics, partitions=new_rows, is_everything=False)

    def apply(self, update: RegistryUpdate) -> LeadershipChanges:
        """Apply rows that were read, or written here; the effects on leaderships."""
        self.version = max(self.version, update.version)
        self.edit_count += update.is_written
        self.read_count += not update.is_written
        topics, partitions = self._named(update)
        changed = {name for name, row in topics.items() if self._put_topic_row(name, row)}
        for key, row in partitions.items():
            is_new = self._put_row(key, row, is_written=update.is_written)
            if is_new and key[0] in self._names:
                changed.add(self._names[key[0]])
        changes = LeadershipChanges()
        for name in sorted(changed):
            self._settle(name, changes)
        return changes

    def _named(
        self, update: RegistryUpdate
    ) -> tuple[Mapping[str, TopicRow | None], Mapping[TopicPartition, PartitionRow | None]]:
        """Rows of topics and partitions, None for those that all rows do not have any more."""
        if not update.is_everything:
            return update.topics, update.partitions
        topics, partitions = dict.fromkeys(self._topic_rows), dict.fromkeys(self._rows)
        return {**topics, **update.topics}, {**partitions, **update.partitions}

    def _put_topic_row(self, name: str, row: TopicRow | None) -> bool:
        """Whether `row` is new, and not older than what is known."""
        known = self._topic_rows.get(name)
        if row == known or (row and known and is_older_topic(row, known)):
            return False
        if known is not None:
            del self._topic_rows[name], self._names[known.topic_id]
        if row is not None:
            self._topic_rows[name] = row
            self._names[row.topic_id] = name
        return True

    def _put_row(self, key: TopicPartition, row: PartitionRow | None, *, is_written: bool) -> bool:
        """Whether `row` is new, and not older than what is known."""
        known = self._rows.get(key)
        if row is not None and known is not None:
            row = newest_row(row, known, is_written=is_written)
        if row == known:
            return False
        if row is None:
            del self._rows[key]
        else:
            self._rows[key] = row
        return True

    def _settle(self, name: str, changes: LeadershipChanges) -> None:
        """Update the topic from its rows."""
        row, known = self._topic_rows.get(name), self.topics.get(name)
        rows = None if row is None else self._rows_of(row.topic_id, row.partitions)
        if rows is None and row and known and row.topic_id == known.topic_id:
            # It has grown, and not all of its new rows are known yet.
            rows = self._rows_of(known.topic_id, known.partition_count)
        if known is not None and (rows is None or row is None or row.topic_id != known.topic_id):
            self._drop(known)
            changes.changed.append(known)
            known = None
        if row is None or rows is None:
            return
        if known is None:
            known = Topic(name, row.topic_id, row.configs, row.replicas, rows)
            self.topics[name] = self.topics_by_id[row.topic_id] = known
        known.configs, known.replicas, known.rows = row.configs, row.replicas, rows
        changes.changed.append(known)
        for number, partition in enumerate(rows):
            self._judge(known, number, partition, changes)

    def _rows_of(self, topic_id: bytes, count: int) -> list[PartitionRow] | None:
        """The first `count`; None unless all of them are known."""
        rows = []
        for number in range(count):
            row = self._rows.get(TopicPartition(topic_id, number))
            if row is None:
                return None
            rows.append(row)
        return rows

    def _judge(
        self, topic: Topic, number: int, row: PartitionRow, changes: LeadershipChanges
    ) -> None:
        leader = topic.leaders.get(number)
        if leader is not None and row.leader_epoch > leader.leader_epoch:
            del topic.leaders[number]
            leader.retire()
            if not leader.is_released:
                changes.lost.append(leader)
            leader = None
        if row.chain != self.chain:
            return
        if leader is None:
            changes.claims.append(LeadershipClaim(topic, number, row))
            return
        leader.follow_row(row)
        if row.target not in (NO_BROKER, self._broker) and not leader.is_released:
            changes.moves.append(Move(topic, leader, row.target))

    def _drop(self, topic: Topic) -> None:
        del self.topics[topic.name]
        self.topics_by_id.pop(topic.topic_id, None)
        topic.is_deleted = True
        retire_all(topic.leaders.values())


def _not_in(known: Mapping[K, R], rows: Mapping[K, R | None]) -> Slices[dict[K, R | None]]:
    """Those of `rows` that are not as they are known."""
    new: dict[K, R | None] = {}
    for number, some in enumerate(parts_of(tuple(rows.items()), SLICE_ROWS)):
        if number:
            yield
        new.update(item for item in some if item[1] != known.get(item[0]))
    return new


def retire_all(leaders: Iterable[Leader]) -> None:
    for leader in leaders:
        leader.retire()
