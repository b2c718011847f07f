"""A run's other work: table pointers put right, retention, merges of small files, sweeping.

None of it moves a table end, and each commit is conditional like any other. What cannot be done now
is done by a later run.
"""

from collections.abc import Mapping, Sequence

from logstore.compaction.backlog import TopicState
from logstore.compaction.commit import Overtaken
from logstore.compaction.decisions.merge import RUN_BYTES_MAX, groups_of, within
from logstore.compaction.decisions.obsolete_files import expired, is_sweep_due
from logstore.compaction.decisions.plan import MergeTask, TaskResult
from logstore.compaction.decisions.run_rows import (
    note_on_table_pointer,
    note_topic_gone,
    raise_table_pointer,
    remove_table_pointer,
)
from logstore.compaction.edits import took_rows_out
from logstore.compaction.session import Session
from logstore.compaction.worker import error_of
from logstore.errors import LogstoreError
from logstore.formats.compaction_row import CompactionRow
from logstore.formats.table_row import TableRow
from logstore.history.forms.snapshot import DataFile, Snapshot, TableCommit
from logstore.protocol.rules.disposal import DROP, ON_DELETE, Fate, may_drop_table
from logstore.protocol.steps import believed_ms

States = Mapping[bytes, TopicState]
TablePointers = Mapping[bytes, TableRow]


class Upkeep:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._perform = session.ports.rows.perform

    def repair(
        self, states: States, table_pointers: TablePointers, closed: Sequence[CompactionRow]
    ) -> None:
        """Write table pointers that a dead run did not, also of topics that were deleted since."""
        self._session.pointer_versions = {
            topic_id: row.version for topic_id, row in table_pointers.items()
        }
        self._session.pointers_behind_ms = {
            topic_id: row.behind_ms for topic_id, row in table_pointers.items()
        }
        for topic_id, state in states.items():
            row = table_pointers.get(topic_id)
            if state.snapshot is None:
                continue
            if row is None or row.version < state.snapshot.version:
                self._note_behind(state, state.snapshot, row)
                self._session.raise_table_pointer(state)
            elif row.on_delete != state.topic.on_delete:
                self._perform(note_on_table_pointer(topic_id, on_delete=state.topic.on_delete))
        for topic_id in dict.fromkeys(one.topic_id for row in closed for one in row.cut):
            if topic_id not in table_pointers and topic_id not in states:
                snapshot = self._session.ports.tables.snapshot(topic_id)
                if snapshot is not None:
                    new = TableRow(version=snapshot.version, ends=snapshot.ends)
                    self._perform(raise_table_pointer(topic_id, new))

    def _note_behind(self, state: TopicState, snapshot: Snapshot, row: TableRow | None) -> None:
        """Before the pointer is raised: brokers may have served rows until now that a run took out
        long ago, and died. Key compaction keeps tombstones by it.
        """
        topic_id, tables = state.topic.topic_id, self._session.ports.tables
        if row is None or not state.topic.clean.is_compacted:
            return
        if took_rows_out(tables, snapshot, row.version):
            now_ms = self._perform(believed_ms())
            self._perform(note_on_table_pointer(topic_id, behind_ms=now_ms))
            self._session.pointers_behind_ms[topic_id] = now_ms

    def expire(self, states: States) -> None:
        """Files that are wholly below log start leave their tables."""
        for state in states.values():
            if state.snapshot is None or self._session.has_failed(state.topic):
                continue
            old = expired(state.snapshot, state.log_starts)
            if old:
                self._session.step(f"retention: {state.topic.name}")
                if self._commit(state, TableCommit({}, {}, (), old, str(self._session.run))):
                    self._session.summary.topic(state.topic.name).expired_files += len(old)

    def merge(self, states: States) -> None:
        """Small neighbours become one file, as many as one run may."""
        tasks: list[MergeTask] = []
        left = RUN_BYTES_MAX
        for topic_id, state in states.items():
            if state.snapshot is None or self._session.has_failed(state.topic):
                continue
            for group in within(groups_of(state.snapshot), left):
                left -= sum(file.size_bytes for file in group)
                number = next(self._session.numbers)
                run = str(self._session.run)
                tasks.append(MergeTask(run, number, topic_id, state.topic.name, group))
        results = self._session.carry_out(tasks)
        for topic_id in sorted({task.topic_id for task in tasks}):
            mine = [task for task in tasks if task.topic_id == topic_id]
            self._commit_merges(states[topic_id], mine, results)

    def folders(self, states: States, table_pointers: TablePointers) -> None:
        """Tables of topics that are gone are dropped; files that nothing names are swept."""
        now_ms = self._perform(believed_ms())
        live = {row.topic_id for row in self._session.ports.reader.topics().values()}
        for topic_id, row in table_pointers.items():
            if topic_id in live:
                if row.gone_ms:  # its topic is back, by a restore
                    self._perform(note_on_table_pointer(topic_id, gone_ms=0))
                if topic_id in states and is_sweep_due(row, now_ms):
                    self._sweep(states[topic_id], now_ms)
            elif not self._session.options.topics:
                self._dismiss(topic_id, row, now_ms)

    def _commit_merges(
        self,
        state: TopicState,
        tasks: Sequence[MergeTask],
        results: Mapping[int, TaskResult],
    ) -> None:
        removes: list[DataFile] = []
        adds: list[DataFile] = []
        for task in tasks:
            result = results[task.number]
            if result.error:
                self._session.report(state.topic, error_of(result))
                continue
            removes += task.files
            adds += [file for _, file in result.files]
        commit = TableCommit({}, {}, adds, removes, str(self._session.run))
        if removes and self._commit(state, commit):
            self._session.summary.topic(state.topic.name).merged_files += len(removes)

    def _commit(self, state: TopicState, commit: TableCommit) -> bool:
        """Whether the table took it. One that was changed concurrently is left to the next run."""
        try:
            self._session.commit(state, commit)
        except Overtaken:
            return False
        except LogstoreError as error:
            self._session.report(state.topic, error)
            return False
        return True

    def _sweep(self, state: TopicState, now_ms: int) -> None:
        self._session.step(f"sweep: {state.topic.name}")
        hours = self._session.options.horizon_hours
        try:
            count = self._session.ports.tables.vacuum(
                state.topic.topic_id, hours, False, now_ms=now_ms
            )
        except LogstoreError as error:
            self._session.report(state.topic, error)
            return
        self._session.summary.swept_files += count
        self._perform(note_on_table_pointer(state.topic.topic_id, swept_ms=now_ms))

    def _dismiss(self, topic_id: bytes, row: TableRow, now_ms: int) -> None:
        """A table whose topic is gone: noticed first, dropped a grace later, or kept."""
        name = row.topic or topic_id.hex()
        is_due = may_drop_table(Fate.DELETED, row, row.on_delete, now_ms).may
        if row.gone_ms and (not is_due or self._session.options.keep_deleted):
            return
        fate, deletion = self._session.ports.reader.fates([topic_id])[topic_id]
        if fate is Fate.UNKNOWN:
            self._session.summary.topic(name).error = (
                f"a table belongs to an unknown topic: {fate.value}: "
                f"topic={topic_id.hex()}; run: logstore fsck"
            )
        elif not row.gone_ms:
            self._session.step(f"topic is gone: {name}")
            self._perform(note_topic_gone(topic_id))
        elif deletion is not None:
            recorded = deletion.topic.configs.get(ON_DELETE, DROP)
            if may_drop_table(fate, row, recorded, now_ms).may:
                self._session.step(f"drop table: {name}")
                self._session.ports.tables.delete_table(topic_id)
                self._perform(remove_table_pointer(topic_id, row.version))
                self._session.summary.dropped_tables.append(name)
