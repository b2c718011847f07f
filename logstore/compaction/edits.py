"""Rows that a table's owner changed: found by a compaction run, published for all readers.

Below the table end the table is the truth. Segments say the same until the owner deletes or updates
rows in the table; from then on brokers must not read segments there. So a run looks at the commits
that it did not make itself, since the version that the table pointer names, and raises `edited_end`
of the partitions that lost files with their rows. The table pointer is raised after that: a run
that dies in between leaves the same commits to the next one.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from logstore.errors import ConditionFailed, NotFound
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.history.forms.snapshot import CommitFacts, Snapshot
from logstore.ports.registry import Comparison
from logstore.protocol.rows.changes import publish
from logstore.protocol.steps import GetRow, Steps, UpdateRow

ATTEMPTS_MAX = 8


class TableCommits(Protocol):
    """The calls needed of `logstore.history.delta.Tables`."""

    def commits(self, topic_id: bytes, since_version: int) -> Sequence[CommitFacts]: ...


def edited_ends(
    tables: TableCommits, snapshot: Snapshot, pointer_version: int | None
) -> dict[int, int]:
    """By partition, the table end below which its owner changed rows after `pointer_version`.

    Every offset that a change may have touched lies below the table end. If commits were removed
    before they were read, that is the end of each partition. One GET per commit.
    """
    first = 1 if pointer_version is None else pointer_version + 1
    if first > snapshot.version:
        return {}
    try:
        facts = tables.commits(snapshot.topic_id, first)
    except NotFound:
        facts = []
    if not facts or facts[0].version != first:
        return dict(snapshot.ends)
    touched = {
        partition
        for one in facts
        if one.run is None and one.version <= snapshot.version
        for partition in one.rewritten
    }
    return {one: end for one in sorted(touched) if (end := snapshot.end(one)) is not None}


def took_rows_out(tables: TableCommits, snapshot: Snapshot, pointer_version: int) -> bool:
    """Whether a run's commit after `pointer_version` took files out with their rows. One GET per
    commit; true where commits were removed before they were read."""
    first = pointer_version + 1
    try:
        facts = tables.commits(snapshot.topic_id, first)
    except NotFound:
        return True
    is_whole = bool(facts) and facts[0].version == first
    return not is_whole or any(one.run is not None and one.rewritten for one in facts)


def raise_edited_ends(topic_id: bytes, topic: str, ends: Mapping[int, int]) -> Steps[None]:
    """In the rows of partitions; the change feed notifies brokers."""
    changes = []
    for partition, end in ends.items():
        if (yield from _raise(topic_id, partition, end)):
            changes.append(FeedChange(topic, topic_id, partition))
    if changes:
        yield from publish(changes)


def _raise(topic_id: bytes, partition: int, end: int) -> Steps[bool]:
    """False: it is there already, or the partition is gone."""
    place = partition_pk(topic_id, partition), partition_sk(topic_id, partition)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        current = yield GetRow(*place)
        if current is None:
            return False
        row = PartitionRow.of(current)
        if row.edited_end >= end:
            return False
        # Rows have the attribute from the first change on. Before, only the leadership can be
        # named: a concurrent run that raises the same ends holds no lease.
        same = Comparison("leader_epoch", "=", row.leader_epoch)
        rising = Comparison("edited_end", "<", end)
        try:
            yield UpdateRow(*place, {"edited_end": end}, [rising if row.edited_end else same])
            return True
        except ConditionFailed:
            if attempt == ATTEMPTS_MAX:
                raise
    raise AssertionError("unreachable")
