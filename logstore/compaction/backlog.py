"""Offsets that wait to be moved, by registry, tables and chains, read in the order that is safe.

Snapshots are read before committed ends, so a table that ends above them is ahead of the log, and
never only younger.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from logstore.compaction.commit import CommitTables
from logstore.compaction.decisions.cut import (
    TableTopic,
    Waiting,
    is_due,
    loads_of,
    oldest_until,
    seqs_needed,
    waiting_of,
)
from logstore.errors import Corrupt, LogstoreError, Refused, Retryable
from logstore.formats.segment_ranges import SegmentRange, SplitPoint
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow
from logstore.history.forms.snapshot import Snapshot
from logstore.ports.clock import Clock
from logstore.protocol.partitions.lookup import NotListed
from logstore.protocol.rules.disposal import confirmed_start
from logstore.reading.direct.reader import LogReader, PartitionView, inherited_configs
from logstore.reading.planning.layout import ChainLayout
from logstore.reading.planning.segment_gone import SegmentGone

READERS_MAX = 16
"""Tables that are looked at together."""

Report = Callable[[TableTopic, LogstoreError], None]
"""Reports a topic that cannot be read; the others continue."""


@dataclass(slots=True)
class TopicState:
    """One topic during a run. `snapshot` is the newest that the run has seen."""

    topic: TableTopic
    snapshot: Snapshot | None
    views: Mapping[TopicPartition, PartitionView] = field(default_factory=dict)

    def waiting(self) -> list[Waiting]:
        return waiting_of(self.topic, self.snapshot, self.views)

    @property
    def log_starts(self) -> dict[int, int]:
        """By partition, the log start below which data may be deleted: never above the log's end,
        as chains have it.
        """
        return {
            key.partition: min(confirmed_start(view.row), view.end)
            for key, view in self.views.items()
        }


@dataclass(frozen=True, slots=True)
class Due:
    """Offsets to move: ranges, their locations, and their approximate size."""

    cut: Sequence[Waiting]
    segment_ranges: Mapping[TopicPartition, Sequence[SegmentRange]]
    size_bytes: int


class Backlog:
    """Looks at one log. Not for several threads at once."""

    def __init__(
        self, reader: LogReader, tables: CommitTables, clock: Clock, report: Report
    ) -> None:
        self._reader = reader
        self._tables = tables
        self._clock = clock
        self._report = report

    def look(
        self, names: Sequence[str], known: Mapping[bytes, Snapshot]
    ) -> dict[bytes, TopicState]:
        """Topics that may have a table, by id; all of them if `names` is empty.

        Raises `Refused` where the registry knows less than a table.
        """
        rows = {
            name: row for name, row in self._reader.topics().items() if not names or name in names
        }
        states = self._snapshots(rows, known)
        views = self._reader.partitions(
            {name: row for name, row in rows.items() if row.topic_id in states}
        )
        by_topic: dict[bytes, dict[TopicPartition, PartitionView]] = {}
        for key, view in views.items():
            by_topic.setdefault(key.topic_id, {})[key] = view
        for topic_id, state in states.items():
            name = state.topic.name
            state.views = by_topic.get(topic_id, {})
            defaults = inherited_configs(state.views.values())
            state.topic = TableTopic.of(name, topic_id, rows[name].configs, defaults)
        return {topic_id: state for topic_id, state in states.items() if self._is_sound(state)}

    def look_again(self, states: Mapping[bytes, TopicState], topic_id: bytes) -> None:
        """After a table went on without us: its newest snapshot, and then committed ends."""
        state = states[topic_id]
        state.snapshot = self._tables.snapshot(topic_id)
        mine = {one.topic.name for one in states.values()}
        rows = {name: row for name, row in self._reader.topics().items() if name in mine}
        views = self._reader.partitions(rows)
        state.views = {key: view for key, view in views.items() if key.topic_id == topic_id}

    def due(self, states: Mapping[bytes, TopicState], *, everything: bool) -> Due:
        """Offsets to move now; with `everything`, all committed ones."""
        waiting = [
            one for state in states.values() if state.topic.is_enabled for one in state.waiting()
        ]
        segment_ranges = self.segment_ranges(states, waiting)
        loads = loads_of(segment_ranges, self._chain_bytes(segment_ranges))
        first_seqs: dict[int, list[int]] = {}
        for load in loads.values():
            first_seqs.setdefault(load.first[0], []).append(load.first[1])
        ages = _Ages(
            self._reader,
            {chain: sorted(set(seqs)) for chain, seqs in first_seqs.items()},
            self._clock.now_ms(),
        )
        cut = [
            one
            for one in waiting
            if one.key in loads
            and (
                everything
                or is_due(
                    loads[one.key].size_bytes,
                    states[one.key.topic_id].topic.freshness_ms,
                    partial(ages.is_older, *loads[one.key].first),
                )
            )
        ]
        mine = {one.key: segment_ranges[one.key] for one in cut}
        return Due(cut, mine, sum(loads[key].size_bytes for key in mine))

    def segment_ranges(
        self, states: Mapping[bytes, TopicState], ranges: Sequence[Waiting]
    ) -> dict[TopicPartition, list[SegmentRange]]:
        """Locations of ranges. One that cannot be found is reported, or moves with the next run."""
        located = {}
        for one in ranges:
            state = states[one.key.topic_id]
            row = state.views[one.key].row
            try:
                located[one.key] = self._reader.segment_ranges(one.key, row, one.start, one.end)
            except NotListed as error:  # the rows are newer than the table that `one` begins at
                self._report(state.topic, Corrupt(str(error)))
            except Retryable:
                continue  # log start was raised concurrently
            except Corrupt as error:
                self._report(state.topic, error)
        return located

    def segment_sizes(self, chain: int, first_seq: int, last_seq: int) -> list[int]:
        return [span.size_bytes for span in self._reader.spans(chain, first_seq, last_seq)]

    def layout_of(self, chain: int, segment_ranges: Sequence[SegmentRange]) -> ChainLayout:
        return self._reader.layout_of(chain, segment_ranges)

    def offsets_at(self, cuts: Sequence[SplitPoint]) -> list[int]:
        return self._reader.offsets_at(cuts)

    def _is_sound(self, state: TopicState) -> bool:
        """False for a topic that was deleted while it was looked at: its rows went before."""
        try:
            state.waiting()
        except Refused:
            now = self._reader.topics().get(state.topic.name)
            if now is None or now.topic_id != state.topic.topic_id:
                return False
            raise
        return True

    def _snapshots(
        self, rows: Mapping[str, TopicRow], known: Mapping[bytes, Snapshot]
    ) -> dict[bytes, TopicState]:
        """Several at a time: on S3 each takes two round trips or more."""
        topics = [
            topic
            for name, row in sorted(rows.items())
            if not (topic := TableTopic.of(name, row.topic_id, row.configs)).is_internal
        ]

        def look(topic: TableTopic) -> Snapshot | LogstoreError | None:
            try:
                return self._tables.snapshot(topic.topic_id, known=known.get(topic.topic_id))
            except LogstoreError as error:
                return error

        with ThreadPoolExecutor(READERS_MAX, thread_name_prefix="logstore-tables") as threads:
            snapshots = list(threads.map(look, topics))
        states = {}
        for topic, snapshot in zip(topics, snapshots, strict=True):
            if isinstance(snapshot, LogstoreError):
                self._report(topic, snapshot)
            else:
                states[topic.topic_id] = TopicState(topic, snapshot)
        return states

    def _chain_bytes(
        self, segment_ranges: Mapping[TopicPartition, Sequence[SegmentRange]]
    ) -> dict[int, int]:
        return {
            chain: sum(sum(self.segment_sizes(chain, seqs.start, seqs.stop - 1)) for seqs in ranges)
            for chain, ranges in seqs_needed(segment_ranges).items()
        }


class _Ages:
    """How old segments are: asks a few of a chain, since their times never fall along it."""

    def __init__(self, reader: LogReader, seqs: Mapping[int, Sequence[int]], now_ms: int) -> None:
        self._reader = reader
        self._seqs = seqs
        self._now_ms = now_ms
        self._written_ms: dict[tuple[int, int], int] = {}
        self._counts: dict[tuple[int, int], int] = {}

    def is_older(self, chain: int, seq: int, age_ms: int) -> bool:
        seqs = self._seqs[chain]
        if (chain, age_ms) not in self._counts:
            self._counts[chain, age_ms] = oldest_until(
                seqs, lambda one: self._time_of(chain, one), self._now_ms - age_ms
            )
        count = self._counts[chain, age_ms]
        return count > 0 and seq <= seqs[count - 1]

    def _time_of(self, chain: int, seq: int) -> int:
        if (chain, seq) not in self._written_ms:
            try:
                self._written_ms[chain, seq] = self._reader.written_ms(chain, seq)
            except SegmentGone:
                self._written_ms[chain, seq] = 0  # as old as can be
        return self._written_ms[chain, seq]
