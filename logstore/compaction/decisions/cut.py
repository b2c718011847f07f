"""Offsets that a run moves: per partition a range from the table's end that is due. Pure.

    table end (the snapshot that will be committed on; never the table pointer)    ─┐
    log start: what lies below it and is not in the table is gone             ─┴▶ start
    committed end, read after the snapshot                                     ─▶ end

A partition is due when 16 MiB of it wait, or its oldest record that waits is older than its topic's
`logstore.table.freshness.ms`, ten times that if less than 1 MiB waits: many tiny files cost more
than they are worth. How much waits is estimated from the sizes of segments, which hold batches of
many partitions, by each one's share of the offsets in them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

from logstore.compaction.decisions.clean_rules import CleanRules
from logstore.config.topics import topic_value
from logstore.errors import Refused
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot

MiB = 1024 * 1024
AT_ONCE_BYTES = 16 * MiB
BUSY_BYTES = MiB
IDLE_FACTOR = 10
RANGES_MAX = 20_000
"""In one cut: its row in the registry has 400 KB at most, and a range takes up to 20 bytes."""

ROUND_BYTES = 32 * 1024 * MiB
"""Bytes of segments read between two commits: the work that a failure may lose."""

INTERNAL = "__"
DEFAULTS = {
    "logstore.table.enable": "true",
    "logstore.table.freshness.ms": "60000",
    "logstore.table.on.delete": "drop",
}


class LogBounds(Protocol):
    """One partition as `LogReader.partitions` gives it."""

    @property
    def log_start(self) -> int: ...

    @property
    def end(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TableTopic:
    """One topic that may have a table, with the settings that count here."""

    topic_id: bytes
    name: str
    is_enabled: bool
    freshness_ms: int
    on_delete: str
    clean: CleanRules = field(default_factory=CleanRules)

    @property
    def is_internal(self) -> bool:
        return self.name.startswith(INTERNAL)

    @staticmethod
    def of(
        name: str,
        topic_id: bytes,
        configs: Mapping[str, str],
        defaults: Mapping[str, str] = MappingProxyType({}),
    ) -> "TableTopic":
        """`defaults`: of brokers, as their chains' rows have them."""
        return TableTopic(
            topic_id,
            name,
            bool(_value("logstore.table.enable", configs)),
            int(str(_value("logstore.table.freshness.ms", configs))),
            str(_value("logstore.table.on.delete", configs)),
            CleanRules.of(configs, defaults),
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """Offsets [start, end) of one partition that are committed and not in its table.

    `table_end` is None where nothing of the partition was ever moved.
    """

    key: TopicPartition
    table_end: int | None
    start: int
    end: int

    @property
    def commit_start(self) -> int:
        """Start offset of the commit: the table's end; log start may be above it."""
        return self.start if self.table_end is None else self.table_end

    @property
    def is_empty(self) -> bool:
        return self.start >= self.end


class PartitionBacklog(NamedTuple):
    """How much of a partition waits (an estimate), and for how long at least."""

    size_bytes: int
    first: tuple[int, int]
    """Chain and seq that it begins in."""


def waiting_of(
    topic: TableTopic, snapshot: Snapshot | None, views: Mapping[TopicPartition, LogBounds]
) -> list[Waiting]:
    """Waiting offsets of a topic, by partition. `views` were read after `snapshot` was.

    Raises `Refused` for a registry that knows less than the table does.
    """
    mine = {key.partition: view for key, view in views.items() if key.topic_id == topic.topic_id}
    ends = {} if snapshot is None else snapshot.ends
    for partition, end in sorted(ends.items()):
        view = mine.get(partition)
        if view is None or end > view.end:
            raise Refused(
                f"the table ends above the log: topic={topic.name} partition={partition} "
                f"table end={end} log end={'none' if view is None else view.end}; the registry is "
                "older than what is stored: stop the brokers and run: logstore restore"
            )
    backlog = []
    for partition, view in sorted(mine.items()):
        table_end = ends.get(partition)
        start = view.log_start if table_end is None else max(table_end, view.log_start)
        one = Waiting(TopicPartition(topic.topic_id, partition), table_end, start, view.end)
        if not one.is_empty:
            backlog.append(one)
    return backlog


def is_due(size_bytes: int, freshness_ms: int, is_older_than: Callable[[int], bool]) -> bool:
    """`is_older_than`: whether the oldest record that waits is older than that many ms."""
    if size_bytes >= AT_ONCE_BYTES:
        return True
    return is_older_than(freshness_ms if size_bytes >= BUSY_BYTES else freshness_ms * IDLE_FACTOR)


def loads_of(
    segment_ranges: Mapping[TopicPartition, Sequence[SegmentRange]], chain_bytes: Mapping[int, int]
) -> dict[TopicPartition, PartitionBacklog]:
    """`chain_bytes`: by chain, the sizes of all segments that the segment ranges need."""
    offsets: dict[int, int] = {}
    for segments in _all(segment_ranges):
        offsets[segments.chain] = (
            offsets.get(segments.chain, 0) + segments.offsets.end - segments.offsets.start
        )
    loads = {}
    for key, mine in segment_ranges.items():
        shares = [
            chain_bytes[segments.chain]
            * (segments.offsets.end - segments.offsets.start)
            // offsets[segments.chain]
            for segments in mine
        ]
        loads[key] = PartitionBacklog(sum(shares), (mine[0].chain, mine[0].first_seq))
    return loads


def seqs_needed(
    segment_ranges: Mapping[TopicPartition, Sequence[SegmentRange]],
) -> dict[int, list[range]]:
    """By chain, the seqs that the segment ranges need, in ranges without overlap."""
    by_chain: dict[int, list[tuple[int, int]]] = {}
    for segments in _all(segment_ranges):
        by_chain.setdefault(segments.chain, []).append((segments.first_seq, segments.last_seq + 1))
    return {chain: _merged(sorted(spans)) for chain, spans in by_chain.items()}


def oldest_until(seqs: Sequence[int], written_ms: Callable[[int], int], until_ms: int) -> int:
    """How many of `seqs` of one chain, rising, were begun at `until_ms` or before.

    When segments were begun never falls along a chain, so a few are asked.
    """
    return bisect_left(seqs, until_ms + 1, key=written_ms)


def rounds_of(total_bytes: int) -> int:
    """In how many rounds so much is moved."""
    return max(1, -(-total_bytes // ROUND_BYTES))


def limited(cut: Sequence[Waiting], rounds: int) -> list[Waiting]:
    """As much of the cut as the next of so many rounds moves: the same share of each partition.

    Partitions share segments, so equal shares need about the same ones.
    """
    return [
        replace(one, end=one.start + max(1, (one.end - one.start) // rounds))
        for one in cut[:RANGES_MAX]
    ]


def rest_of(wanted: Waiting, now: Waiting) -> Waiting | None:
    """The rest of a range that a run planned to move, by the partition's current offsets."""
    left = replace(now, end=min(now.end, wanted.end))
    return None if left.is_empty else left


def _value(name: str, configs: Mapping[str, str]) -> object:
    return topic_value(name, configs, DEFAULTS)


def _all(segment_ranges: Mapping[TopicPartition, Sequence[SegmentRange]]) -> Iterable[SegmentRange]:
    return (segments for mine in segment_ranges.values() for segments in mine)


def _merged(spans: Iterable[tuple[int, int]]) -> list[range]:
    merged: list[range] = []
    for start, end in spans:
        if merged and start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, end))
        else:
            merged.append(range(start, end))
    return merged
