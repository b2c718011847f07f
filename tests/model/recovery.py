"""A registry that is put back from an older copy, or lost, and `logstore restore`: rule 12.

One topic with one partition. The log is offsets [0, end), each in a segment of its own; a prefix of
them may be in the table, segments that a table holds are trimmed, retention raises log start, the
topic may be deleted. All of that is decided by rows. Beside them lies what no copy takes back:
segments, table, and the topic's record, which says live or deleted.

At any moment a copy of the registry is taken, put back, or the registry is lost, and everybody goes
on with what there is then. Nothing notices: this is the case in which no broker started since the
copy. So what is deleted must be right by the other witnesses alone. `restore` may run at any moment
too. Once a segment that was deleted comes back: a late PUT, an un-delete.

The truth is kept beside: how far log start was really raised, and whether the topic was deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Fault(Enum):
    """A rule broken on purpose."""

    NO_ROW_IS_DELETED = "trimming takes a topic without a row for a deleted one"
    TABLE_OF_NO_ROW_DROPPED = "the table of a topic without a row is dropped"
    RESTORE_ASKS_NO_TABLE = "restore raises log start to the first segment there is"
    RESTORE_BELIEVES_LOG_START = "restore keeps the log start of the row, whatever is there"
    RESTORE_BEGINS_AT_A_STRAY = "restore begins at the first offset there is, with a hole behind it"
    RESTORE_REFUSES_A_HOLE = "restore refuses while a segment below a hole is there"
    RESTORE_REVIVES = "restore makes a live topic of what has a chain, whatever its record says"
    RESTORE_FORGETS = "restore makes rows only of topics that the registry knows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    offsets: int = 2
    put_backs: int = 2
    fault: Fault | None = None


class Registry(NamedTuple):
    """`row`: none, live or deleted."""

    row: str = "none"
    start: int = 0
    trim: int = 0


class World(NamedTuple):
    end: int = 0
    segments: int = 0
    """A bit for each that is there."""
    table: int = 0
    record: str = "none"
    """What the topic's newest record in the store says."""
    registry: Registry = Registry()
    copy: Registry | None = None
    put_backs: int = 0
    has_stray: bool = False
    true_start: int = 0
    wrong: str = ""

    @property
    def is_deleted(self) -> bool:
        return self.record == "deleted"

    def has(self, offset: int) -> bool:
        return bool((self.segments | self.table) >> offset & 1)


Move = tuple[str, World]


def moves(world: World, bounds: Bounds) -> Iterator[Move]:
    if world.registry.row == "live" and not world.is_deleted:
        yield from _lives(world, bounds)
    yield from _topic(world)
    yield from _trims(world, bounds)
    yield from _table_upkeep(world, bounds)
    yield from _disasters(world, bounds)
    yield "restore", _restored(world, bounds)


def _topic(world: World) -> Iterator[Move]:
    registry = world.registry
    if world.record == "none":
        yield "topic: record is stored", world._replace(record="live")
    elif registry.row == "none" and world.record == "live" and not world.put_backs:
        # Afterwards the same name would be another topic.
        yield "topic: row says live", world._replace(registry=registry._replace(row="live"))
    if registry.row == "live" and world.record == "live":
        yield "deletion: record is stored", world._replace(record="deleted")
    if registry.row == "live" and world.record == "deleted":
        yield "deletion: row says so", world._replace(registry=registry._replace(row="deleted"))
    if registry.row == "deleted":
        yield "deletion: row is forgotten", world._replace(registry=registry._replace(row="none"))


def _lives(world: World, bounds: Bounds) -> Iterator[Move]:
    registry = world.registry
    if world.end < bounds.offsets:
        grown = world.segments | 1 << world.end
        yield "log grows", world._replace(end=world.end + 1, segments=grown)
    moved = world.table.bit_length()
    at = max(moved, registry.start)
    if at < world.end and world.segments >> at & 1:
        yield "offset moves to the table", world._replace(table=world.table | 1 << at)
    if registry.start < world.end:
        start = registry.start + 1
        true_start = max(world.true_start, start)
        raised = registry._replace(start=start)
        yield "log start rises", world._replace(registry=raised, true_start=true_start)


# Deleting


def _floor(world: World, fault: Fault | None) -> int:
    """Below it no segment is needed, by all witnesses."""
    row, start, _ = world.registry
    if row == "live":
        held = start
        while world.table >> held & 1:
            held += 1
        return held
    is_gone = world.is_deleted or fault is Fault.NO_ROW_IS_DELETED
    return world.end if is_gone else 0


def _trims(world: World, bounds: Bounds) -> Iterator[Move]:
    registry, floor = world.registry, _floor(world, bounds.fault)
    if floor > registry.trim:
        yield "trim point rises", world._replace(registry=registry._replace(trim=floor))
    if registry.trim <= floor:
        for offset in range(registry.trim):
            if world.segments >> offset & 1:
                left = world.segments & ~(1 << offset)
                yield "segment is deleted", world._replace(segments=left)


def _table_upkeep(world: World, bounds: Bounds) -> Iterator[Move]:
    row, start, _ = world.registry
    below = world.table & (1 << start) - 1
    if row == "live" and below:
        yield "table drops what is below log start", world._replace(table=world.table & ~below)
    is_gone = world.is_deleted or bounds.fault is Fault.TABLE_OF_NO_ROW_DROPPED
    if row != "live" and world.table and is_gone:
        yield "table is dropped", world._replace(table=0)


# What goes wrong


def _disasters(world: World, bounds: Bounds) -> Iterator[Move]:
    if world.copy != world.registry and not world.put_backs:
        yield "a copy is taken", world._replace(copy=world.registry)
    if world.put_backs < bounds.put_backs:
        counted = world._replace(put_backs=world.put_backs + 1)
        if world.copy is not None:
            yield "the copy is put back", counted._replace(registry=world.copy)
        yield "the registry is lost", counted._replace(registry=Registry())
    if not world.has_stray:
        for offset in range(world.end):
            if not world.segments >> offset & 1 and offset < world.true_start:
                back = world.segments | 1 << offset
                yield "a deleted segment is back", world._replace(segments=back, has_stray=True)


# Restoring


def _restored(world: World, bounds: Bounds) -> World:
    """Rows by what is stored. They are judged: it is what people go on with."""
    fault, registry = bounds.fault, world.registry
    record = world.record
    if fault is Fault.RESTORE_REVIVES and record == "deleted" and world.segments:
        record = "live"
    if fault is Fault.RESTORE_FORGETS and registry.row == "none":
        record = "none"
    if record != "live":
        after = world._replace(registry=registry._replace(row=record))
    else:
        begin = _begin(world, fault)
        if begin is None:
            return world._replace(wrong="restore refuses, though everything is there")
        start = begin if fault is not Fault.RESTORE_BELIEVES_LOG_START else 0
        restored = Registry("live", max(start, registry.start), registry.trim)
        after = world._replace(registry=restored)
    return after._replace(wrong=_misjudged(after))


def _begin(world: World, fault: Fault | None) -> int | None:
    """From here to the end a tier holds every offset; what lies alone below came back late."""
    if fault is Fault.RESTORE_ASKS_NO_TABLE:
        world = world._replace(table=0)
    there = [offset for offset in range(world.end) if world.has(offset)]
    first = there[0] if there else world.end
    behind_holes = world.end
    while behind_holes and world.has(behind_holes - 1):
        behind_holes -= 1
    if fault is Fault.RESTORE_BEGINS_AT_A_STRAY:
        return first
    if fault is Fault.RESTORE_REFUSES_A_HOLE and first != behind_holes:
        return None
    return behind_holes


def _misjudged(world: World) -> str:
    row, start, _ = world.registry
    if world.is_deleted:
        return "a deleted topic is live again" if row == "live" else ""
    if world.record == "live" and row != "live":
        return "a topic is gone"
    if row == "live" and start > world.true_start:
        return "log start hides what was never deleted"
    if row == "live" and not all(world.has(offset) for offset in range(start, world.end)):
        return "log start is where nothing is"
    return ""


def wrong_with(world: World, _: Bounds) -> str:
    """What is wrong with this state; empty when nothing is."""
    if world.wrong:
        return world.wrong
    needed = () if world.is_deleted else range(world.true_start, world.end)
    return "" if all(map(world.has, needed)) else "a record is lost"
