"""Rows of a run as steps: its own row, and the table pointer of each table. Pure.

A run's row lists the offsets that it moves. The holder of the lease finds rows of runs that did not
end and closes them: their commits are in tables, their uncommitted files are swept. A table pointer
only goes up, and only once the table has what it says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from logstore.errors import ConditionFailed
from logstore.formats.compaction_row import COMPACTION, CompactionRow, RunStatus, TopicCut, pack_cut
from logstore.formats.table_row import TABLE, TableRow, pack_ends
from logstore.ports.registry import Comparison, Row, RowAbsent, RowExists
from logstore.protocol.steps import DeleteRow, GraceStartMs, PutRow, QueryRows, Steps, UpdateRow

RUNS_KEPT = 20
"""Rows of ended runs that stay, for people to look at."""


class RunId(NamedTuple):
    """Start time of a run and a random number: the owner in its lease."""

    began_ms: int
    owner: int

    def __str__(self) -> str:
        """Sorts by time."""
        return f"{self.began_ms:012x}{self.owner:08x}"


def begin_run(run: RunId, by: str) -> Steps[None]:
    row = CompactionRow(status=RunStatus.RUNNING, by=by, began_ms=run.began_ms)
    yield PutRow(COMPACTION, str(run), row.row(), [RowAbsent()])


def store_cut(run: RunId, cut: Sequence[TopicCut]) -> Steps[None]:
    """Raises `ConditionFailed` where a later run has closed this one."""
    sets = {"cut": pack_cut(cut)}
    yield UpdateRow(COMPACTION, str(run), sets, [_is_running()])


def end_run(run: RunId, status: RunStatus, message: str, now_ms: int) -> Steps[None]:
    """Nothing where a later run has closed this one already."""
    sets: Row = {"status": status.value, "outcome": message[:500], "ended_ms": now_ms}
    try:
        yield UpdateRow(COMPACTION, str(run), sets, [_is_running()])
    except ConditionFailed:
        return


def read_run(run: RunId) -> Steps[CompactionRow | None]:
    rows = yield QueryRows(COMPACTION, str(run))
    return CompactionRow.of(rows[0][1]) if rows else None


def note_objects(run: str, *, may_be_there: bool) -> Steps[None]:
    """Whether tasks of that run may have left objects in the store."""
    try:
        yield UpdateRow(COMPACTION, run, {"objects": int(may_be_there)}, [RowExists()])
    except ConditionFailed:
        return


class EarlierRuns(NamedTuple):
    """`closed`: rows of runs that never ended. `with_objects`: starts, ms, of runs whose objects
    were not swept, by the rows' keys."""

    closed: Sequence[CompactionRow]
    with_objects: Mapping[str, int]


def close_earlier(run: RunId, now_ms: int) -> Steps[EarlierRuns]:
    """Runs that never ended are closed now, and old rows removed, except those of runs that may
    have left objects.
    """
    rows = yield QueryRows(COMPACTION)
    earlier = [(sk, CompactionRow.of(row)) for sk, row in rows if sk != str(run)]
    closed = []
    for sk, row in earlier:
        if row.status is RunStatus.RUNNING:
            sets: Row = {"status": RunStatus.ABANDONED.value, "ended_ms": now_ms}
            try:
                yield UpdateRow(COMPACTION, sk, sets, [_is_running()])
            except ConditionFailed:
                continue
            closed.append(replace(row, status=RunStatus.ABANDONED))
    with_objects = {sk: row.began_ms for sk, row in earlier if row.objects}
    for sk, row in earlier[:-RUNS_KEPT]:
        if row.objects:
            continue
        try:
            yield DeleteRow(COMPACTION, sk, [Comparison("began_ms", "=", row.began_ms)])
        except ConditionFailed:
            continue
    return EarlierRuns(closed, with_objects)


def raise_table_pointer(topic_id: bytes, row: TableRow) -> Steps[None]:
    """Let the table pointer say what `row` does, unless it says more already."""
    sets: Row = {
        "version": row.version,
        "ends": pack_ends(row.ends),
        "topic": row.topic,
        "on_delete": row.on_delete,
    }
    try:
        yield UpdateRow(TABLE, topic_id.hex(), sets, [Comparison("version", "<", row.version)])
    except ConditionFailed as failed:
        if failed.current is None:
            try:
                yield PutRow(TABLE, topic_id.hex(), row.row(), [RowAbsent()])
            except ConditionFailed:
                return


def note_on_table_pointer(topic_id: bytes, **sets: int | str) -> Steps[None]:
    """Set attributes other than the table's end."""
    try:
        yield UpdateRow(TABLE, topic_id.hex(), sets, [RowExists()])
    except ConditionFailed:
        return


def note_topic_gone(topic_id: bytes) -> Steps[None]:
    """Stamped by the store: the clock of this host may be behind those of later runs."""
    seen_ms: int = yield GraceStartMs()
    yield from note_on_table_pointer(topic_id, gone_ms=seen_ms)


def remove_table_pointer(topic_id: bytes, version: int) -> Steps[None]:
    """Once its table is dropped."""
    try:
        yield DeleteRow(TABLE, topic_id.hex(), [Comparison("version", "=", version)])
    except ConditionFailed:
        return


def _is_running() -> Comparison:
    return Comparison("status", "=", RunStatus.RUNNING.value)
