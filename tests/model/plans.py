"""A reader that plans now and reads much later: a batch, in tasks, across moves and trims. Rule 12.

The log is offsets [0, log_end), each in a segment of its own; a prefix moves to the table, segments
that the table holds go, log start may rise. A driver promises a batch, [start, end), writes that
down, and cuts it into two tasks: what the table held then, and segments, whose one piece is given
whole to each task together with its own part. It may crash and plan the same batch again. Tasks run
at any time after that, offset by offset; an attempt may die, and a task that is done may run again.

What lies below log start by then is gone, and a task that needs it fails: it never tells nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Fault(Enum):
    """A rule broken on purpose."""

    WHOLE_PIECE_RESOLVED = "a task whose segment is gone reads its whole piece from the table"
    PART_RESOLVED_FROM_ITS_BEGINNING = "it reads its part from the beginning, with what it has"
    TABLE_OF_THE_PLAN = "it looks in the table as that was when the batch was planned"
    TABLE_NOT_CLIPPED = "a task reads all that the table holds, with what moved after the plan"
    MISSING_IS_EMPTY = "what is neither a segment nor in the table is passed over in silence"
    START_ASKED_AGAIN = "a driver that plans its batch again asks for the start again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    offsets: int = 3
    crashes: int = 1
    attempts: int = 3
    fault: Fault | None = None


class Task(NamedTuple):
    """Offsets [start, end) of the piece [piece, piece_end) are its own; `rows` what it has read."""

    start: int
    end: int
    piece: int
    piece_end: int
    stage: str = "waiting"
    position: int = 0
    rows: tuple[int, ...] = ()
    done: tuple[int, ...] | None = None
    """What an attempt that came to its end has read."""


class World(NamedTuple):
    log_end: int = 0
    log_start: int = 0
    table_end: int = 0
    deleted: int = 0
    """Segments below are gone."""
    promise: tuple[int, int] | None = None
    tasks: tuple[Task, ...] = ()
    table_at_plan: int = 0
    crashes: int = 0
    attempts: int = 0
    wrong: str = ""


Move = tuple[str, World]


def moves(world: World, bounds: Bounds) -> Iterator[Move]:
    if world.log_end < bounds.offsets:
        yield "log grows", world._replace(log_end=world.log_end + 1)
    if world.table_end < world.log_end:
        yield "offset moves to the table", world._replace(table_end=world.table_end + 1)
    if world.deleted < max(world.table_end, world.log_start):
        yield "segment is deleted", world._replace(deleted=world.deleted + 1)
    if world.log_start < world.log_end:
        yield "log start rises", world._replace(log_start=world.log_start + 1)
    yield from _drives(world, bounds)
    for number in range(len(world.tasks)):
        yield from _reads(world, number, bounds)


def _drives(world: World, bounds: Bounds) -> Iterator[Move]:
    if world.promise is None:
        if world.log_end > world.log_start:
            promised = world._replace(promise=(world.log_start, world.log_end))
            yield "driver promises a batch", promised
    elif not world.tasks:
        for cut in range(world.promise[0], world.promise[1] + 1):
            yield "driver plans its batch", _planned(world, world.promise, cut, bounds)
    elif world.crashes < bounds.crashes:
        yield "driver crashes", world._replace(tasks=(), crashes=world.crashes + 1)


def _planned(world: World, promise: tuple[int, int], cut: int, bounds: Bounds) -> World:
    """Cut in two at `cut`: by the table's end, or anywhere within what segments hold."""
    start, end = promise
    if bounds.fault is Fault.START_ASKED_AGAIN:
        start = max(start, world.log_start)
    cut = max(cut, start)
    piece = max(start, min(world.table_end, end))
    tasks = tuple(
        Task(first, last, piece if last > piece else first, max(end, last), position=first)
        for first, last in ((start, cut), (cut, end))
        if first < last
    )
    return world._replace(tasks=tasks, table_at_plan=world.table_end)


def _reads(world: World, number: int, bounds: Bounds) -> Iterator[Move]:
    task = world.tasks[number]
    if task.stage == "waiting" and world.attempts < bounds.attempts:
        begun = task._replace(stage="reading", position=task.start, rows=())
        name = "task runs again" if task.done is not None else "task begins"
        yield name, _with(world, number, begun)._replace(attempts=world.attempts + 1)
    if task.stage == "reading":
        yield "attempt dies", _with(world, number, task._replace(stage="waiting"))
        if task.position < task.end:
            yield _step(world, number, bounds.fault)
        else:
            yield "task is done", _done(world, number)


def _step(world: World, number: int, fault: Fault | None) -> Move:
    """The next offset: where it was planned to be; if it is gone from there, anywhere else."""
    task = world.tasks[number]
    at = task.position
    if at < world.log_start:
        # Both tiers may hold it for a while yet; the worst is that neither does.
        if fault is Fault.MISSING_IS_EMPTY:
            return "task passes over what is gone", _with(world, number, _after(task, ()))
        return "task fails: below log start", _with(world, number, task._replace(stage="failed"))
    if at < world.table_at_plan:
        until = world.table_end if fault is Fault.TABLE_NOT_CLIPPED else at + 1
        rows = tuple(range(at, until))
        return "task reads the table", _with(world, number, _after(task, rows))
    if at >= world.deleted:
        return "task gets a segment", _with(world, number, _after(task, (at,)))
    return "task meets a 404, resolves again", _with(world, number, _resolved(world, task, fault))


def _after(task: Task, rows: tuple[int, ...]) -> Task:
    return task._replace(position=task.position + 1, rows=task.rows + rows)


def _resolved(world: World, task: Task, fault: Fault | None) -> Task:
    """Exactly what it has not read yet of its own part, from the table as it is now."""
    if fault is Fault.TABLE_OF_THE_PLAN:
        return _after(task, ())
    start, end = task.position, min(task.end, world.table_end)
    if fault is Fault.WHOLE_PIECE_RESOLVED:
        start, end = task.piece, min(task.piece_end, world.table_end)
    elif fault is Fault.PART_RESOLVED_FROM_ITS_BEGINNING:
        start = task.start
    position = max(task.position, min(task.end, world.table_end))
    return task._replace(position=position, rows=task.rows + tuple(range(start, end)))


def _done(world: World, number: int) -> World:
    task = world.tasks[number]
    reported = task._replace(stage="waiting", rows=(), done=task.rows)
    after = _with(world, number, reported)
    if task.done is not None and task.done != task.rows:
        return after._replace(wrong="a task that runs again gives other rows")
    return after


def _with(world: World, number: int, task: Task) -> World:
    return world._replace(tasks=(*world.tasks[:number], task, *world.tasks[number + 1 :]))


def wrong_with(world: World, _: Bounds) -> str:
    """What is wrong with this state; empty when nothing is."""
    if world.wrong or world.promise is None:
        return world.wrong
    done = [task.done for task in world.tasks]
    if not done or None in done:
        return ""
    rows = sorted(row for part in done for row in part or ())
    promised = list(range(*world.promise))
    if len(set(rows)) < len(rows):
        return "rows are read twice"
    if set(rows) - set(promised):
        return "rows are read that were not promised"
    return "rows are missing, in silence" if rows != promised else ""
