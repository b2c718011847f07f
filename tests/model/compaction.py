"""Compaction, its table, trimming and readers as one small world: safety rules 6 and 7.

The log is offsets [0, log_end), each in a segment of its own. The table is its entries; what it
holds are the offsets that they added. Two compactors take any of their steps at any time, or die;
a reader may plan, and be slow. Time is one tick, `a grace passes`: trim points, the versions that
are old enough, and requests in flight live by it.

A writer of the table that does not create conditionally takes part in a search of its own: it looks
for a free place, and fills it within a grace, whatever lies there by then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Fault(Enum):
    """A rule broken on purpose."""

    BLIND_APPEND = "a commit that met another is put behind it as it is"
    RANGE_OUTSIDE_SNAPSHOT = (
        "a run takes its start from the table pointer, and commits on the newest"
    )
    POINTER_BEFORE_TABLE = "the table pointer says what is not committed yet"
    DELETION_BY_THE_ROW = "trim points follow the table pointer instead of the table"
    NO_GRACE = "what the table holds since just now may be trimmed"
    LINKS_UNCHECKED = "it is not checked whether commits follow each other"
    LINKS_OF_ONE_GRACE = "only commits of the last grace are looked at"
    READER_IGNORES_404 = "a reader takes a segment that is gone for an empty one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`unsafe`: the other writer takes part, and no reader: it sees what is missing at once."""

    offsets: int = 3
    entries: int = 4
    ticks: int = 3
    unsafe: bool = False
    fault: Fault | None = None


class Entry(NamedTuple):
    """Offsets [start, end) move; an owner's entry moves none."""

    start: int = 0
    end: int = 0


Table = tuple[Entry, ...]


class Run(NamedTuple):
    """One compactor: it knows the table at `version`, and is to move [start, end)."""

    stage: str = "idle"
    version: int = 0
    start: int = 0
    end: int = 0


class Reader(NamedTuple):
    """Next: `position`. Below `planned_to` it reads the table, as the table pointer said."""

    position: int = 0
    planned_to: int = 0


class World(NamedTuple):
    log_end: int = 0
    segments: int = 0
    """A bit for each that is there."""
    table: Table = ()
    row_end: int = 0
    """The table pointer."""
    runs: tuple[Run, ...] = (Run(), Run())
    reader: Reader = Reader()
    trim: int = 0
    is_trim_old: bool = False
    deleted: int = 0
    old: int = 0
    """How many entries there were a grace ago."""
    recent: int = 0
    unsafe: int = -1
    """The place that the other writer found free."""
    ticks: int = 0
    wrong: str = ""


Move = tuple[str, World]


def held(table: Table) -> list[int]:
    return [offset for entry in table for offset in range(entry.start, entry.end)]


def end_of(table: Table) -> int:
    return max((entry.end for entry in table), default=0)


def moves(world: World, bounds: Bounds) -> Iterator[Move]:
    if world.log_end < bounds.offsets:
        grown = world.segments | 1 << world.log_end
        yield "log grows", world._replace(log_end=world.log_end + 1, segments=grown)
    for number in range(len(world.runs)):
        yield from _runs(world, number, bounds)
    yield from _trims(world, bounds)
    if world.ticks < bounds.ticks:
        yield "a grace passes", _tick(world)
    if bounds.unsafe:
        yield from _writes_unsafely(world, bounds)
    else:
        yield from _reads(world, bounds)


def _tick(world: World) -> World:
    """What is in flight has landed by then, or never does."""
    return world._replace(
        ticks=world.ticks + 1,
        old=world.recent,
        recent=len(world.table),
        is_trim_old=True,
        unsafe=-1,
    )


# Compactors


def _runs(world: World, number: int, bounds: Bounds) -> Iterator[Move]:
    run = world.runs[number]
    if run.stage != "idle":
        yield "run dies", _with(world, number, Run())
    if run.stage in ("idle", "reported"):
        # A run that has just committed knows the table without reading it again.
        knows = run.stage == "reported"
        version = run.version if knows else len(world.table)
        start = run.end if knows else end_of(world.table)
        if bounds.fault is Fault.RANGE_OUTSIDE_SNAPSHOT:
            start = world.row_end
        if world.log_end > start:
            begun = Run("cut", version, start, world.log_end)
            yield "run stores its cut", _with(world, number, begun)
    elif run.stage == "cut":
        if all(world.segments >> offset & 1 for offset in range(run.start, run.end)):
            after = _with(world, number, run._replace(stage="written"))
            if bounds.fault is Fault.POINTER_BEFORE_TABLE:
                after = after._replace(row_end=max(world.row_end, run.end))
            yield "run writes files", after
    elif run.stage == "written":
        yield from _commits(world, number, run, bounds)
    elif run.stage == "committed":
        reported = _with(world, number, run._replace(stage="reported"))
        yield "table pointer rises", reported._replace(row_end=max(world.row_end, run.end))


def _commits(world: World, number: int, run: Run, bounds: Bounds) -> Iterator[Move]:
    rebases = (Fault.BLIND_APPEND, Fault.RANGE_OUTSIDE_SNAPSHOT)
    version = len(world.table) if bounds.fault in rebases else run.version
    if len(world.table) != version:
        yield "commit meets another", _with(world, number, Run())
    elif len(world.table) < bounds.entries:
        done = run._replace(stage="committed", version=version + 1)
        table = (*world.table, Entry(run.start, run.end))
        yield "run commits", _with(world, number, done)._replace(table=table)


def _with(world: World, number: int, run: Run) -> World:
    return world._replace(runs=(*world.runs[:number], run, *world.runs[number + 1 :]))


def _writes_unsafely(world: World, bounds: Bounds) -> Iterator[Move]:
    if world.unsafe < 0 and len(world.table) < bounds.entries:
        yield "unsafe writer finds a place", world._replace(unsafe=len(world.table))
    elif world.unsafe >= 0:
        at = world.unsafe
        table = (*world.table[:at], Entry(), *world.table[at + 1 :])
        name = "unsafe writer overwrites" if at < len(world.table) else "unsafe writer commits"
        yield name, world._replace(table=table, unsafe=-1)


# Trimming


def _floor(world: World, fault: Fault | None) -> int:
    """Up to where the table holds the log durably; 0 when something does not fit."""
    if fault is Fault.DELETION_BY_THE_ROW:
        return world.row_end
    then = len(world.table) if fault is Fault.NO_GRACE else world.old
    looked_at = world.old if fault is Fault.LINKS_OF_ONE_GRACE else 0
    if fault is not Fault.LINKS_UNCHECKED and not _is_linked(world.table, looked_at):
        return 0
    return min(end_of(world.table[:then]), end_of(world.table))


def _is_linked(table: Table, since: int) -> bool:
    end = end_of(table[:since])
    for entry in table[since:]:
        if entry.end and entry.start != end:
            return False
        end = max(end, entry.end)
    return True


def _trims(world: World, bounds: Bounds) -> Iterator[Move]:
    floor = _floor(world, bounds.fault)
    if floor > world.trim == world.deleted:
        yield "trim point rises", world._replace(trim=floor, is_trim_old=False)
    if world.deleted < world.trim <= floor and world.is_trim_old:
        left = world.segments & ~(1 << world.deleted)
        yield "segment is deleted", world._replace(segments=left, deleted=world.deleted + 1)


# Reading


def _reads(world: World, bounds: Bounds) -> Iterator[Move]:
    reader = world.reader
    if reader.planned_to != world.row_end:
        planned = reader._replace(planned_to=world.row_end)
        yield "reader reads the table pointer", world._replace(reader=planned)
    if reader.position >= world.log_end:
        return
    if reader.position < reader.planned_to:
        yield "reader reads the table", _read(world, reader.position in held(world.table))
    elif world.segments >> reader.position & 1:
        yield "reader gets a segment", _read(world, True)
    elif bounds.fault is Fault.READER_IGNORES_404:
        yield "reader passes over a 404", _read(world, False)
    else:
        resolved = reader._replace(planned_to=end_of(world.table))
        yield "reader meets a 404, resolves again", world._replace(reader=resolved)


def _read(world: World, is_there: bool) -> World:
    """What the table lacks below its end may have gone for good reasons: it cannot be known."""
    after = world._replace(reader=world.reader._replace(position=world.reader.position + 1))
    return after if is_there else after._replace(wrong="a reader skips what is committed")


def wrong_with(world: World, bounds: Bounds) -> str:
    """What is wrong with this state; empty when nothing is."""
    if world.wrong:
        return world.wrong
    there = held(world.table)
    if len(set(there)) < len(there):
        return "an offset is in the table twice"
    if not bounds.unsafe and sorted(there) != list(range(end_of(world.table))):
        return "the table has a hole"
    for offset in range(world.log_end):
        if not world.segments >> offset & 1 and offset not in there:
            return "a record is lost"
    return ""
