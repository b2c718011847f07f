"""The heart of a run: moves due offsets from segments into tables, a round at a time."""

from collections.abc import Mapping, Sequence

from logstore.compaction.backlog import Backlog, TopicState
from logstore.compaction.commit import Overtaken
from logstore.compaction.decisions.cut import Waiting, limited, rest_of, rounds_of
from logstore.compaction.decisions.plan import MoveTask, TaskResult, plan_moves
from logstore.compaction.decisions.run_rows import store_cut
from logstore.compaction.session import Session
from logstore.compaction.worker import error_of
from logstore.errors import LogstoreError, Retryable
from logstore.formats.compaction_row import NO_TABLE, CutRange, TopicCut
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import TableCommit

OVERTAKEN_MAX = 3
"""Maximum of such conflicts in one run; more mean that another program writes the table."""

States = Mapping[bytes, TopicState]


class Moves:
    def __init__(self, session: Session, backlog: Backlog, states: States) -> None:
        self._session = session
        self._backlog = backlog
        self._states = states
        self._segment_ranges: dict[Waiting, Sequence[SegmentRange]] = {}
        self._overtaken_count = 0

    def go(self) -> None:
        """Move all that is due now. Offsets committed during the run wait for the next one."""
        self._session.step("cut")
        due = self._backlog.due(self._states, everything=self._session.options.now)
        self._segment_ranges = {one: due.segment_ranges[one.key] for one in due.cut}
        wanted = {one.key: one for one in due.cut}
        rounds = rounds_of(due.size_bytes)
        while wanted:
            self._session.summary.rounds += 1
            self._round(limited(list(wanted.values()), rounds))
            wanted = self._left(wanted)
            rounds = max(1, rounds - 1)

    def _left(self, wanted: Mapping[TopicPartition, Waiting]) -> dict[TopicPartition, Waiting]:
        """The part of a cut that is not in the tables yet, of topics that have not failed."""
        left = {}
        for topic_id in dict.fromkeys(key.topic_id for key in wanted):
            state = self._states[topic_id]
            if self._session.has_failed(state.topic):
                continue
            for now in state.waiting():
                rest = rest_of(wanted[now.key], now) if now.key in wanted else None
                if rest is not None:
                    left[now.key] = rest
        return left

    def _round(self, cut: Sequence[Waiting]) -> None:
        self._session.step("cut to its row")
        rows = self._session.ports.rows
        rows.perform(store_cut(self._session.run, _topic_cuts(self._states, cut)))
        self._session.step("plan")
        by_topic = self._findable(cut)
        tasks = plan_moves(
            str(self._session.run),
            (
                segments
                for mine in by_topic.values()
                for one in mine
                for segments in self._segment_ranges[one]
            ),
            self._backlog.layout_of,
            self._backlog.offsets_at,
            {topic_id: self._states[topic_id].topic.name for topic_id in by_topic},
            self._session.numbers,
            parallelism=self._session.ports.carrier.parallelism,
            task_bytes=self._session.options.task_bytes,
        )
        results = self._session.carry_out(tasks)
        failures = _failures(tasks, results)
        for topic_id, mine in by_topic.items():
            state, failure = self._states[topic_id], failures.get(topic_id)
            try:
                self._finish(state, mine, list(results.values()), failure)
            except Overtaken:
                self._begin_again(state)
            except LogstoreError as error:
                self._session.report(state.topic, error)

    def _findable(self, cut: Sequence[Waiting]) -> dict[bytes, list[Waiting]]:
        """The cut by topic, without partitions whose segment ranges cannot be found."""
        unknown = [one for one in cut if one not in self._segment_ranges]
        located = self._backlog.segment_ranges(self._states, unknown)
        self._segment_ranges |= {one: located[one.key] for one in unknown if one.key in located}
        by_topic: dict[bytes, list[Waiting]] = {}
        for one in cut:
            topic = self._states[one.key.topic_id].topic
            if one in self._segment_ranges:
                by_topic.setdefault(one.key.topic_id, []).append(one)
            elif not self._session.has_failed(topic):
                self._session.report(
                    topic, Retryable("log start was raised during the run: run it again")
                )
        return by_topic

    def _finish(
        self,
        state: TopicState,
        cut: Sequence[Waiting],
        results: Sequence[TaskResult],
        failure: LogstoreError | None,
    ) -> None:
        """Commit what tasks wrote of one topic. Raises `Overtaken`, and `failure` if there is one.

        A task fails too where another run has moved, and trimmed, what it was to read.
        """
        topic = state.topic
        if failure is not None:
            now = self._session.ports.tables.snapshot(topic.topic_id)
            if now is not None and any(now.end(one.key.partition) != one.table_end for one in cut):
                raise Overtaken("another run moved the records of a task")
            raise failure
        files = [
            file for one in results for topic_id, file in one.files if topic_id == topic.topic_id
        ]
        commit = TableCommit(
            starts={one.key.partition: one.commit_start for one in cut},
            ends={one.key.partition: one.end for one in cut},
            adds=files,
            run=str(self._session.run),
        )
        self._session.commit(state, commit)
        summary = self._session.summary.topic(topic.name)
        summary.partitions = max(summary.partitions, len(cut))
        summary.add_files(files)
        for one in results:
            summary.add_moved(topic.topic_id, one)

    def _begin_again(self, state: TopicState) -> None:
        """Drop the written files, which are swept later; the table decides the remaining work."""
        self._session.step(f"begin again: {state.topic.name}")
        self._overtaken_count += 1
        if self._overtaken_count > OVERTAKEN_MAX:
            raise Retryable(
                "other commits change the tables during this run, again and again: which "
                "other program writes them?"
            )
        self._backlog.look_again(self._states, state.topic.topic_id)
        self._session.see(state, state.snapshot)


def _failures(
    tasks: Sequence[MoveTask], results: Mapping[int, TaskResult]
) -> dict[bytes, LogstoreError]:
    """Errors of tasks, by the topics that they would have written."""
    failures: dict[bytes, LogstoreError] = {}
    for task in tasks:
        if results[task.number].error:
            failures |= dict.fromkeys(task.topic_ids, error_of(results[task.number]))
    return failures


def _topic_cuts(states: States, cut: Sequence[Waiting]) -> list[TopicCut]:
    ranges: dict[bytes, list[CutRange]] = {}
    for one in cut:
        ranges.setdefault(one.key.topic_id, []).append(
            CutRange(one.key.partition, one.start, one.end)
        )
    cuts = []
    for topic_id, mine in ranges.items():
        snapshot = states[topic_id].snapshot
        version = NO_TABLE if snapshot is None else snapshot.version
        cuts.append(TopicCut(topic_id, version, sorted(mine)))
    return cuts
