"""Operations shared by all parts of a run: take a step, run tasks, commit, report failures.

`watch` is called before each step: progress is shown by it, and tests end runs there. A run may die
after any step. A later run begins from the tables, which show the commits of earlier runs.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from logstore.compaction.backlog import TopicState
from logstore.compaction.commit import CommitTables, commit_once
from logstore.compaction.decisions.clean_rules import CleanLimits
from logstore.compaction.decisions.cut import TableTopic
from logstore.compaction.decisions.obsolete_files import HORIZON_HOURS, HOUR_MS
from logstore.compaction.decisions.plan import TASK_BYTES, Task, TaskResult, result_of
from logstore.compaction.decisions.run_rows import RunId, raise_table_pointer
from logstore.compaction.decisions.summary import Summary
from logstore.compaction.edits import edited_ends, raise_edited_ends
from logstore.compaction.leased_rows import LeasedRows
from logstore.errors import Denied, LogstoreError, Retryable
from logstore.formats.table_row import TableRow
from logstore.history.forms.snapshot import Snapshot, TableCommit
from logstore.ports.clock import Clock, blocking_sleep_s
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.direct.reader import LogReader


class Carrier(Protocol):
    """Carries out tasks somewhere: `local`, `spark`."""

    @property
    def parallelism(self) -> int: ...

    def carry_out(self, tasks: Sequence[str]) -> Iterator[str]:
        """A result for each task, in any order (`plan.TaskResult` as text)."""
        ...

    def close(self) -> None: ...


Watch = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of one run. `topics`: these alone; `now`: all committed records; `cleans`: keys of
    compacted topics too."""

    topics: tuple[str, ...] = ()
    now: bool = False
    keep_deleted: bool = False
    horizon_hours: int = HORIZON_HOURS
    task_bytes: int = TASK_BYTES
    cleans: bool = True
    clean: CleanLimits = field(default_factory=CleanLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of a run; the cache of `reader` serves the next run too."""

    rows: LeasedRows
    reader: LogReader
    tables: CommitTables
    store: BlockingObjectStore
    carrier: Carrier
    clock: Clock
    watch: Watch
    sleep_s: Callable[[float], None] = blocking_sleep_s


class Session:
    """One run as its parts see it. `known` are the newest snapshots, also for the next run."""

    def __init__(
        self, run: RunId, options: RunOptions, ports: Ports, known: dict[bytes, Snapshot]
    ) -> None:
        self.run = run
        self.options = options
        self.ports = ports
        self.known = known
        self.numbers = count(1)
        """Of tasks: unique in a run."""
        self.pointer_versions: dict[bytes, int] = {}
        """By topic id, the version that its table pointer names: later ones may be its owner's."""
        self.pointers_behind_ms: dict[bytes, int] = {}
        """By topic id, when its table pointer was last found behind: `TableRow.behind_ms`."""
        self.summary = Summary(run=str(run))
        self._rng = random.Random(run.owner)

    def step(self, name: str) -> None:
        """Before every step. Raises `Retryable` once another run may be at work."""
        self.ports.watch(name)
        self.ports.rows.check()
        if self.ports.clock.now_ms() - self.run.began_ms > self.options.horizon_hours * HOUR_MS:
            raise Retryable("the run took too long and is abandoned: its files may be swept")

    def carry_out(self, tasks: Sequence[Task]) -> dict[int, TaskResult]:
        """The results by number of task; nothing is begun for none."""
        results: dict[int, TaskResult] = {}
        if not tasks:
            return results
        self.step("tasks")
        for text in self.ports.carrier.carry_out([task.text() for task in tasks]):
            result = result_of(text)
            results[result.number] = result
            self.summary.add_task(result)
            self.step("task done")
        return results

    def commit(self, state: TopicState, commit: TableCommit) -> None:
        """Let the table of a topic take `commit`, then its table pointer. Raises `Overtaken`."""
        topic, snapshot = state.topic, state.snapshot
        if snapshot is None:
            self.step(f"create table: {topic.name}")
            snapshot = self.ports.tables.create(topic.topic_id, topic.name)
        self.step(f"commit: {topic.name}")
        committed = commit_once(self.ports.tables, snapshot, commit, self.ports.sleep_s, self._rng)
        self.see(state, committed)
        self.step(f"table pointer: {topic.name}")
        self.raise_table_pointer(state)

    def see(self, state: TopicState, snapshot: Snapshot | None) -> None:
        """Remember the newest snapshot of a topic's table."""
        state.snapshot = snapshot
        if snapshot is not None:
            self.known[state.topic.topic_id] = snapshot

    def raise_table_pointer(self, state: TopicState) -> None:
        assert state.snapshot is not None
        topic_id, ports = state.topic.topic_id, self.ports
        edits = edited_ends(ports.tables, state.snapshot, self.pointer_versions.get(topic_id))
        if edits:
            self.step(f"rows changed by the table's owner: {state.topic.name}")
            ports.rows.perform(raise_edited_ends(topic_id, state.topic.name, edits))
        row = TableRow(
            version=state.snapshot.version,
            ends=state.snapshot.ends,
            topic=state.topic.name,
            on_delete=state.topic.on_delete,
        )
        ports.rows.perform(raise_table_pointer(topic_id, row))
        self.pointer_versions[topic_id] = row.version
        self.summary.topic(state.topic.name).version = state.snapshot.version

    def report(self, topic: TableTopic, error: LogstoreError) -> None:
        """A topic's part of the run has failed; the others continue.

        Raises what fails every topic alike: `Denied`, and `Retryable` where the lease is lost.
        """
        if isinstance(error, Denied):
            raise error
        self.ports.rows.check()
        self.summary.topic(topic.name).error = str(error)

    def has_failed(self, topic: TableTopic) -> bool:
        one = self.summary.topics.get(topic.name)
        return one is not None and bool(one.error)
