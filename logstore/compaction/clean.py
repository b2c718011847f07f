"""Key compaction in a run: of each key of a compacted topic, the last record stays in its table.

    which partitions are due → scan → decide → which units are rewritten → rewrite
    → per topic: tombstones to the partitions' rows → one commit, on the snapshot that was read

Nothing else than the table is cleaned. A commit stands on the very version that was read: after any
other commit in between, nothing of the work is used, and the next run decides from the new version.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from logstore.compaction.backlog import TopicState
from logstore.compaction.commit import Overtaken
from logstore.compaction.decisions.clean_keys import ROW_BYTES
from logstore.compaction.decisions.clean_objects import COMPACTION, Piece, run_prefix
from logstore.compaction.decisions.clean_plan import (
    CleanFound,
    CleanPlace,
    DecideTask,
    RewriteTask,
    ScanTask,
)
from logstore.compaction.decisions.clean_rules import (
    CleanRange,
    Unit,
    chosen_units,
    clean_range,
    is_due,
    most_dirty,
    neighbours_of,
    overdue_ms,
    settled_end,
    settled_since_ms,
    tombstone_horizon,
)
from logstore.compaction.decisions.file_times import file_times
from logstore.compaction.decisions.obsolete_files import HOUR_MS
from logstore.compaction.decisions.plan import Task, TaskResult
from logstore.compaction.decisions.run_rows import note_objects
from logstore.compaction.edits import raise_edited_ends
from logstore.compaction.session import Session
from logstore.compaction.worker import error_of
from logstore.config.topics import NEVER_COMPACTED
from logstore.errors import Denied, LogstoreError, NotFound, Refused
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import DataFile, TableCommit
from logstore.protocol.steps import believed_ms
from logstore.runners.retrying import RetryingStore


@dataclass(slots=True)
class _Partition:
    """One partition during the run."""

    state: TopicState
    range: CleanRange
    horizon: int
    settled_before: int
    found: CleanFound = field(default_factory=CleanFound)
    rewritten: list[int] = field(default_factory=list)
    removes: list[DataFile] = field(default_factory=list)
    adds: list[DataFile] = field(default_factory=list)

    @property
    def settled(self) -> int:
        return settled_end(self.found.held, set(self.rewritten), self.range.clean_end)

    def replace(self, units: Sequence[Unit], result: TaskResult) -> None:
        """Files of these units by those that a task wrote."""
        self.removes += [file for unit in units for file in unit.files]
        self.adds += [file for _, file in result.files]
        self.found.dropped_keyless += sum(self.found.units[unit.index].keyless for unit in units)

    @property
    def is_news(self) -> bool:
        has_moved = self.range.clean_end > self.range.clean_before
        return bool(self.removes) or has_moved or self.settled != self.settled_before


class Cleaning:
    def __init__(self, session: Session, states: Mapping[bytes, TopicState]) -> None:
        self._session = session
        self._states = states
        self._limits = session.options.clean
        self._failed: set[TopicPartition] = set()

    def go(self, with_objects: Mapping[str, int] = MappingProxyType({})) -> None:
        """Clean what is due. No request is made where no topic is compacted and no earlier run
        left objects; `with_objects` as in `run_rows.EarlierRuns`.
        """
        wanted = [state for state in self._states.values() if state.topic.clean.is_compacted]
        for state in wanted:
            if not state.topic.is_enabled:  # from before this was refused
                self._session.report(state.topic, Refused(NEVER_COMPACTED))
        compacted = [state for state in wanted if state.snapshot is not None]
        dead = self._dead(with_objects)
        if not compacted and not dead:
            return
        self._session.step("clean")
        self._sweep(COMPACTION)  # of runs that died
        for run in dead:
            self._session.ports.rows.perform(note_objects(run, may_be_there=False))
        if not compacted:
            return
        now_ms = self._session.ports.rows.perform(believed_ms())
        partitions = self._due(compacted, now_ms)
        if not partitions:
            return
        run = str(self._session.run)
        self._session.ports.rows.perform(note_objects(run, may_be_there=True))
        try:
            self._clean(partitions)
        finally:
            self._sweep(run_prefix(run))
        self._session.ports.rows.perform(note_objects(run, may_be_there=False))

    def _dead(self, with_objects: Mapping[str, int]) -> list[str]:
        """Of these runs those of which no task can still write: they gave up a horizon ago."""
        horizon_ms = self._session.options.horizon_hours * HOUR_MS
        now_ms = self._session.ports.clock.now_ms()
        return [run for run, began_ms in with_objects.items() if now_ms - began_ms > horizon_ms]

    def _clean(self, partitions: Sequence[_Partition]) -> None:
        self._scan(partitions)
        left = self._unfailed(partitions)
        self._decide([one for one in left if one.found.buckets])
        left = self._unfailed(left)
        self._rewrite(left)
        by_topic: dict[bytes, list[_Partition]] = {}
        for one in self._unfailed(left):
            by_topic.setdefault(one.state.topic.topic_id, []).append(one)
        for mine in by_topic.values():
            self._commit(mine)

    def _due(self, states: Sequence[TopicState], now_ms: int) -> list[_Partition]:
        """The dirtiest partitions, as many as one run may clean."""
        places: list[_Partition] = []
        for state in states:
            if not self._session.has_failed(state.topic):
                places += self._due_of(state, now_ms)
        bytes_max = self._limits.core_bytes * self._session.ports.carrier.parallelism
        taken = most_dirty([one.range for one in places], bytes_max)
        wanted = {id(one) for one in taken}
        return [one for one in places if id(one.range) in wanted]

    def _due_of(self, state: TopicState, now_ms: int) -> Iterator[_Partition]:
        snapshot, rules = state.snapshot, state.topic.clean
        assert snapshot is not None
        ranges = []
        for partition, end in sorted(snapshot.ends.items()):
            before = snapshot.cleaned.get(partition, 0)
            files = snapshot.files.get(partition, ())
            try:
                times = self._session.ports.rows.perform(
                    file_times(snapshot, partition, rules, now_ms)
                )
                one = clean_range(partition, files, end, before, rules, now_ms, times)
            except LogstoreError as error:
                self._fail(state, partition, error)
                continue
            summary = self._session.summary
            delay_ms = overdue_ms(one, rules, now_ms) if one.clean_end > before else 0
            summary.clean_delay_ms = max(summary.clean_delay_ms, delay_ms)
            is_asked = self._session.options.now and one.units and one.clean_end >= before
            if is_asked or is_due(one, rules, now_ms):
                ranges.append(one)
        if not ranges:
            return
        self._session.step(f"tombstones: {state.topic.name}")
        try:
            settled_then = self._settled_then(state, now_ms)
        except LogstoreError as error:
            for one in ranges:
                self._fail(state, one.partition, error)
            return
        for one in ranges:
            key = TopicPartition(state.topic.topic_id, one.partition)
            if key in state.views:
                edited_end = state.views[key].row.edited_end
                then = settled_then.get(one.partition, 0)
                horizon = tombstone_horizon(then, edited_end, None)
                yield _Partition(state, one, horizon, snapshot.settled.get(one.partition, 0))

    def _settled_then(self, state: TopicState, now_ms: int) -> Mapping[int, int]:
        """Settled ends by which tombstones may go; none where the table's log begins later."""
        tables, topic_id = self._session.ports.tables, state.topic.topic_id
        behind_ms = self._session.pointers_behind_ms.get(topic_id, 0)
        time_ms = settled_since_ms(now_ms, state.topic.clean, behind_ms)
        if time_ms is None:
            return {}
        try:
            version, _ = tables.version_and_later(topic_id, time_ms)
            then = None if version is None else tables.snapshot(topic_id, version=version)
        except NotFound:
            return {}
        return {} if then is None else then.settled

    def _scan(self, partitions: Sequence[_Partition]) -> None:
        tasks: list[tuple[_Partition, Task]] = []
        for one in partitions:
            size_bytes = one.range.rows * ROW_BYTES
            buckets = at_once_bytes = 0
            groups: list[Sequence[Unit]] = [one.range.units]
            if size_bytes > self._limits.in_memory_bytes:
                buckets = -(-size_bytes // self._limits.bucket_bytes)
                groups = list(_by_rows(one.range.units, self._limits.scan_rows))
            elif self._is_small(one):
                at_once_bytes = self._limits.at_once_bytes
            for units in groups:
                task = ScanTask(
                    **self._place(one),
                    units=units,
                    bucket_count=buckets,
                    horizon=one.horizon,
                    rows_max=self._limits.scan_rows,
                    at_once_bytes=at_once_bytes,
                    dead_ratio_min=one.state.topic.clean.dead_ratio_min,
                )
                tasks.append((one, task))
        for one, result in self._carry_out(tasks):
            if result.found is not None:
                one.found.add(result.found)
                if one.found.rewritten is not None:
                    one.rewritten = one.found.rewritten
                    rewritten = [unit for unit in one.range.units if unit.index in one.rewritten]
                    one.replace(rewritten, result)

    def _is_small(self, one: _Partition) -> bool:
        """Whether one task reads and writes it: it is what a task of a merge may read, too."""
        size_bytes = one.range.size_bytes
        task_bytes = self._session.options.task_bytes
        return size_bytes <= task_bytes and self._limits.may_be_at_once(size_bytes)

    def _decide(self, partitions: Sequence[_Partition]) -> None:
        """Buckets that scans left; the first undecodable batch is known by now."""
        tasks: list[tuple[_Partition, Task]] = []
        for one in partitions:
            raw = None if one.found.raw_offset < 0 else one.found.raw_offset
            horizon = tombstone_horizon(one.horizon, one.horizon, raw)
            for _, pieces in sorted(one.found.buckets.items()):
                task = DecideTask(**self._place(one), pieces=pieces, horizon=horizon)
                tasks.append((one, task))
        for one, result in self._carry_out(tasks):
            if result.found is not None:
                one.found.add(result.found)

    def _rewrite(self, partitions: Sequence[_Partition]) -> None:
        tasks: list[tuple[_Partition, Task]] = []
        units_of_task: dict[int, Sequence[Unit]] = {}
        for one in partitions:
            if one.found.rewritten is not None:
                continue
            one.rewritten = chosen_units(
                one.found.counts(),
                one.found.held,
                one.found.last_tombstones,
                one.range.rows,
                one.state.topic.clean.dead_ratio_min,
            )
            options = self._session.options
            for units in neighbours_of(one.range.units, one.rewritten, options.task_bytes):
                task = self._rewrite_task(one, units)
                units_of_task[task.number] = units
                tasks.append((one, task))
        for one, result in self._carry_out(tasks):
            if result.found is not None and result.found.dropped:
                one.replace(units_of_task[result.number], result)
                one.found.dropped += result.found.dropped
                one.found.dropped_tombstones += result.found.dropped_tombstones

    def _rewrite_task(self, one: _Partition, units: Sequence[Unit]) -> RewriteTask:
        found = [one.found.units[unit.index] for unit in units]
        dead: list[Piece] = [piece for unit in found for piece in unit.dead_pieces]
        return RewriteTask(
            **self._place(one),
            units=units,
            rows=sum(unit.rows for unit in found),
            dead=dead,
            tombstones=[piece for unit in found for piece in unit.tombstone_pieces],
        )

    def _commit(self, partitions: Sequence[_Partition]) -> None:
        """Of one topic. No version is made that says nothing new."""
        state = partitions[0].state
        topic = state.topic
        try:
            self._publish_tombstones(state, partitions)
            partitions = [one for one in partitions if one.is_news]
            if not partitions:
                return
            commit = TableCommit(
                {},
                {},
                [file for one in partitions for file in one.adds],
                [file for one in partitions for file in one.removes],
                str(self._session.run),
                cleaned={one.range.partition: one.range.clean_end for one in partitions},
                settled={one.range.partition: one.settled for one in partitions},
            )
            self._session.commit(state, commit)
        except Overtaken:
            return  # decided by the next run, from the new version
        except LogstoreError as error:
            for one in partitions:
                self._fail(state, one.range.partition, error)
            return
        summary = self._session.summary.topic(topic.name)
        for one in partitions:
            summary.add_cleaned(one.range, one.found, one.removes, one.adds)

    def _publish_tombstones(self, state: TopicState, partitions: Sequence[_Partition]) -> None:
        """Before the clean end says that these tombstones were seen: from then on brokers read no
        segment below them. Segments may hold a key's older record longer than the table has its
        tombstone; a consumer that reads both would see the record and miss the deletion.
        """
        topic_id = state.topic.topic_id
        ends = {}
        for one in partitions:
            end = one.found.newest_tombstone + 1
            row = state.views[TopicPartition(topic_id, one.range.partition)].row
            if end > row.edited_end:
                ends[one.range.partition] = end
        if ends:
            self._session.step(f"tombstones to rows: {state.topic.name}")
            steps = raise_edited_ends(topic_id, state.topic.name, ends)
            self._session.ports.rows.perform(steps)

    def _carry_out(
        self, tasks: Sequence[tuple[_Partition, Task]]
    ) -> Iterator[tuple[_Partition, TaskResult]]:
        """Results of those that did not fail; the topics of the others are reported."""
        results = self._session.carry_out([task for _, task in tasks])
        for one, task in tasks:
            result = results[task.number]
            if result.error:
                self._fail(one.state, one.range.partition, error_of(result))
            else:
                yield one, result

    def _unfailed(self, partitions: Sequence[_Partition]) -> list[_Partition]:
        return [
            one
            for one in partitions
            if TopicPartition(one.state.topic.topic_id, one.range.partition) not in self._failed
        ]

    def _place(self, one: _Partition) -> CleanPlace:
        return {
            "run": str(self._session.run),
            "number": next(self._session.numbers),
            "topic_id": one.state.topic.topic_id,
            "topic": one.state.topic.name,
            "partition": one.range.partition,
            "within_bytes": self._limits.within_bytes,
        }

    def _sweep(self, prefix: str) -> None:
        """Delete what runs left for their tasks. A run that still reads some of it fails."""
        store = RetryingStore.of(self._session.ports.store)
        for info in store.list(prefix):
            store.delete(info.key)

    def _fail(self, state: TopicState, partition: int, error: LogstoreError) -> None:
        """Leave a partition to a later run. Raises what fails every partition alike."""
        if isinstance(error, Denied):
            raise error
        self._session.ports.rows.check()
        self._failed.add(TopicPartition(state.topic.topic_id, partition))
        if isinstance(error, NotFound) and self._is_outdated(state):
            return
        summary = self._session.summary.topic(state.topic.name)
        summary.uncleanable[partition] = str(error)

    def _is_outdated(self, state: TopicState) -> bool:
        """Whether the table has another version than the one that was read."""
        assert state.snapshot is not None
        newest = self._session.ports.tables.snapshot(state.topic.topic_id, known=state.snapshot)
        return newest is None or newest.version != state.snapshot.version


def _by_rows(units: Sequence[Unit], rows_max: int) -> Iterator[list[Unit]]:
    """Neighbours of `rows_max` rows together, or one unit that has more."""
    group: list[Unit] = []
    rows = 0
    for unit in units:
        if group and rows + unit.rows > rows_max:
            yield group
            group, rows = [], 0
        group.append(unit)
        rows += unit.rows
    if group:
        yield group
