"""One moment of a topic as a relation: where its history ends, where its tail begins and ends.

The order in which the two are looked at is what leaves no hole and makes no double, at any moment
of a compaction run: first the table, at one version that is kept, with the ends that it states
itself; then the log. The table's ends at that version never change again, and the log's end, which
is seen later, is never below them. Records that a run moves in between are in both, and only the
tail is read for them. Pure but for its calls of `TopicMetadata`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from logstore.errors import Corrupt, Invalid, Retryable
from logstore.history.forms.snapshot import Snapshot
from logstore.reading.planning.extents import Extents, TopicExtent


@dataclass(frozen=True, slots=True)
class PinnedSnapshot:
    """Offsets [start, bound) of each partition are history, [bound, end) the tail.

    `version` is the table's that holds the history; None: there is none, and no history.
    """

    topic: str
    topic_id: bytes
    version: int | None
    starts: Mapping[int, int]
    bounds: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def has_history(self) -> bool:
        return self.version is not None and self.bounds != self.starts

    @property
    def has_tail(self) -> bool:
        return self.bounds != self.ends


class TopicMetadata(Protocol):
    """Queries about one topic of a `LogMetadata`; each answer is as of the moment of its call."""

    def look(self) -> Extents: ...

    def newest_table(self, topic_id: bytes) -> Snapshot | None: ...


def pin_snapshot(log: TopicMetadata, topic: str) -> PinnedSnapshot:
    """Raises `Invalid` for a topic that does not exist."""
    before = _extent_of(log.look(), topic)
    snapshot = log.newest_table(before.topic_id)
    extent = _extent_of(log.look(), topic)
    if extent.topic_id != before.topic_id:
        raise Retryable(f"topic was re-created while it was read: topic={topic}")
    return pinned(topic, extent, snapshot)


def pinned(topic: str, extent: TopicExtent, snapshot: Snapshot | None) -> PinnedSnapshot:
    """`extent` must be younger than `snapshot`. Raises `Corrupt` where the log ends below it."""
    starts = {number: one.start for number, one in extent.partitions.items()}
    ends = {number: one.end for number, one in extent.partitions.items()}
    bounds = dict(starts)
    for number, table_end in snapshot.ends.items() if snapshot is not None else ():
        if number in ends and table_end > ends[number]:
            raise Corrupt(
                f"the log ends before its table does: topic={topic} partition={number} "
                f"end={ends[number]} table end={table_end}; is the registry an older copy?"
            )
        if number in bounds:
            bounds[number] = max(bounds[number], table_end)
    version = None if snapshot is None else snapshot.version
    return PinnedSnapshot(topic, extent.topic_id, version, starts, bounds, ends)


def _extent_of(extents: Extents, topic: str) -> TopicExtent:
    if topic not in extents:
        raise Invalid(f"no such topic: {topic}; create it first, or correct the name")
    return extents[topic]
