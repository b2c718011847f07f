"""Key compaction of one partition beside a consumer that rebuilds its state from offset 0.

Records come one by one, each a transaction that commits or aborts; committed ones move to the
table. Runs read the table, decide, publish the last tombstone and commit, only on what they read;
each leaves any of the dead rows where they are, as in files of which few rows are dead. They may
die between any two steps. A consumer reads offset by offset: below the published tombstone from the
table as it is then, above it from a segment or the table, for segments go one after the other.

Time is one tick: `delete.retention.ms` and `min.compaction.lag.ms` pass. A consumer that has not
reached the end by then has no promise and begins again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, combinations
from typing import NamedTuple


class Fault(Enum):
    """A rule broken on purpose."""

    TOMBSTONE_OF_ANY_AGE = "tombstones go as soon as no older row of their key is left"
    HORIZON_OF_THE_NEWEST = "the age of a tombstone is asked of the newest version"
    AGES_BESIDE_AN_OLDER_ROW = (
        "a tombstone goes together with older rows, once it was seen long ago"
    )
    NEWER_ABOVE_CLEAN_END = "a row above the clean end replaces one below it"
    ABOVE_THE_LAG = "rows younger than the lag are cleaned"
    OLD_SNAPSHOT = "a run commits what it decided from an older version"
    SEGMENTS_BELOW_A_TOMBSTONE = "segments are read below a tombstone that may go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    records: int = 3
    keys: int = 1
    runs: int = 1
    ticks: int = 2
    fault: Fault | None = None


class Record(NamedTuple):
    key: int
    is_tombstone: bool


Log = tuple[Record | None, ...]
"""By offset; None: aborted."""

State = tuple[tuple[int, int], ...]
"""Key and offset of its value, by key."""


class Run(NamedTuple):
    """One run after its decision: rows that it read and drops, and the ends that it commits."""

    stage: str = "idle"
    rows: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    clean_end: int = 0
    settled: int = 0
    tombstone_end: int = 0
    is_overtaken: bool = False


class Reader(NamedTuple):
    position: int = 0
    state: State = ()


class World(NamedTuple):
    log: Log = ()
    pending: Record | None = None
    table_end: int = 0
    rows: frozenset[int] = frozenset()
    clean_end: int = 0
    settled: int = 0
    edited_end: int = 0
    """Below it the table alone is read."""
    runs: tuple[Run, ...] = ()
    reader: Reader = Reader()
    ticks: int = 0
    old_end: int = 0
    """Records below are older than the lag."""
    old_settled: int = 0
    """The settled end when the last tick passed."""
    wrong: str = ""


Move = tuple[str, World]


def first(bounds: Bounds) -> World:
    return World(runs=(Run(),) * bounds.runs)


def moves(world: World, bounds: Bounds) -> Iterator[Move]:
    yield from _writes(world, bounds)
    if world.table_end < len(world.log):
        yield "record moves to the table", _moved(world)
    for number in range(len(world.runs)):
        yield from _runs(world, number, bounds)
    yield from _reads(world, bounds)
    if world.ticks < bounds.ticks:
        yield (
            "time passes",
            world._replace(
                ticks=world.ticks + 1,
                old_end=len(world.log),
                old_settled=world.settled,
                reader=Reader(),
            ),
        )


def _writes(world: World, bounds: Bounds) -> Iterator[Move]:
    if world.pending is not None:
        written = world._replace(pending=None)
        yield "record commits", written._replace(log=(*world.log, world.pending))
        yield "record aborts", written._replace(log=(*world.log, None))
    elif len(world.log) < bounds.records:
        for key in range(bounds.keys):
            for is_tombstone in (False, True):
                yield "record is written", world._replace(pending=Record(key, is_tombstone))


def _moved(world: World) -> World:
    rows = world.rows
    if world.log[world.table_end] is not None:
        rows |= {world.table_end}
    return _overtaking(world._replace(rows=rows, table_end=world.table_end + 1))


def _overtaking(world: World) -> World:
    """A new version of the table: no run has read it."""
    runs = tuple(run._replace(is_overtaken=run.stage != "idle") for run in world.runs)
    return world._replace(runs=runs)


# Runs


def _runs(world: World, number: int, bounds: Bounds) -> Iterator[Move]:
    run = world.runs[number]
    if run.stage == "idle":
        for decided in _decisions(world, bounds.fault):
            yield "run decides", _with(world, number, decided)
        return
    yield "run dies", _with(world, number, Run())
    if run.stage == "decided":
        end = max(world.edited_end, run.tombstone_end)
        if bounds.fault is Fault.SEGMENTS_BELOW_A_TOMBSTONE:
            end = 0
        published = world._replace(edited_end=end)
        yield "run publishes tombstones", _with(published, number, run._replace(stage="published"))
    elif not run.is_overtaken:
        yield "run commits", _committed(world, number)
    elif bounds.fault is Fault.OLD_SNAPSHOT:
        yield "run commits on a newer version", _committed(world, number)
    else:
        yield "run is overtaken", _with(world, number, Run())


def _committed(world: World, number: int) -> World:
    """The rows of the files that it read become those that it wrote."""
    run = world.runs[number]
    rows = (world.rows - run.rows) | (run.rows - run.dropped)
    after = world._replace(rows=rows, clean_end=run.clean_end, settled=run.settled)
    return _with(_overtaking(after), number, Run())


def _decisions(world: World, fault: Fault | None) -> Iterator[Run]:
    """Every outcome of the decision: each dead row may lie in a file that is left alone."""
    clean_end = min(world.table_end, world.old_end)
    if fault is Fault.ABOVE_THE_LAG:
        clean_end = world.table_end
    if clean_end < world.clean_end:
        return
    rows = sorted(row for row in world.rows if row < clean_end)
    stones = [row for row in rows if _of(world, row).is_tombstone and not _newer(world, row, rows)]
    dead = [row for row in rows if _newer(world, row, rows)]
    if fault is Fault.NEWER_ABOVE_CLEAN_END and world.pending is not None:
        dead = [row for row in rows if row in dead or _of(world, row).key == world.pending.key]
    for gone in _subsets(dead):
        settled = min((row for row in stones if set(_older(world, row, rows)) - gone), default=None)
        if settled is None or fault is Fault.AGES_BESIDE_AN_OLDER_ROW:
            settled = clean_end
        for dropped in _subsets(_that_may_go(world, stones, rows, gone, fault)):
            yield Run(
                "decided",
                world.rows,
                gone | dropped,
                clean_end,
                settled,
                max(stones, default=-1) + 1,
            )


def _that_may_go(
    world: World,
    stones: Sequence[int],
    rows: Sequence[int],
    gone: frozenset[int],
    fault: Fault | None,
) -> list[int]:
    """Tombstones."""
    horizon = world.old_settled
    if fault is Fault.HORIZON_OF_THE_NEWEST:
        horizon = world.settled
    elif fault is Fault.TOMBSTONE_OF_ANY_AGE:
        horizon = len(world.log)
    horizon = min(horizon, world.edited_end)
    if fault is Fault.SEGMENTS_BELOW_A_TOMBSTONE:
        horizon = world.old_settled
    may_go = []
    for row in stones:
        older = set(_older(world, row, rows))
        if fault is Fault.AGES_BESIDE_AN_OLDER_ROW:
            older -= gone
        if row < horizon and not older:
            may_go.append(row)
    return may_go


def _of(world: World, offset: int) -> Record:
    record = world.log[offset]
    assert record is not None
    return record


def _newer(world: World, row: int, rows: Sequence[int]) -> bool:
    key = _of(world, row).key
    return any(other > row and _of(world, other).key == key for other in rows)


def _older(world: World, row: int, rows: Sequence[int]) -> list[int]:
    key = _of(world, row).key
    return [other for other in rows if other < row and _of(world, other).key == key]


def _subsets(rows: Sequence[int]) -> Iterator[frozenset[int]]:
    sizes = range(len(rows) + 1)
    return map(frozenset, chain.from_iterable(combinations(rows, size) for size in sizes))


def _with(world: World, number: int, run: Run) -> World:
    return world._replace(runs=(*world.runs[:number], run, *world.runs[number + 1 :]))


# The consumer


def _reads(world: World, bounds: Bounds) -> Iterator[Move]:
    position = world.reader.position
    if position == len(world.log):
        if position and world.reader.state != state_of(world.log):
            yield "consumer ends", world._replace(wrong="a consumer holds another state")
        elif position:
            yield "consumer ends", world._replace(reader=Reader())
        return
    if position < world.table_end:
        is_there = position in world.rows
        name = "consumer reads the table" if is_there else "consumer passes a gap"
        yield name, _read(world, is_there)
    if position >= world.edited_end:
        yield "consumer reads a segment", _read(world, world.log[position] is not None)


def _read(world: World, is_there: bool) -> World:
    at, state = world.reader
    if is_there:
        state = _applied(state, _of(world, at), at)
    return world._replace(reader=Reader(at + 1, state))


def _applied(state: State, record: Record, offset: int) -> State:
    others = tuple(one for one in state if one[0] != record.key)
    return others if record.is_tombstone else tuple(sorted((*others, (record.key, offset))))


def state_of(log: Log) -> State:
    state: State = ()
    for offset, record in enumerate(log):
        if record is not None:
            state = _applied(state, record, offset)
    return state


def wrong_with(world: World, _: Bounds) -> str:
    """The first rule that this state breaks; empty when none is."""
    if world.wrong:
        return world.wrong
    if world.clean_end > min(world.table_end, world.old_end):
        return "a clean end above the table end or the lag"
    return "a settled end above the clean end" if world.settled > world.clean_end else ""
