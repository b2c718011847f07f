"""A Spark sink as one small world: staging, manifest, leaders that adopt, takeovers, sweeper.

One partition, one sink. Tasks stage an object per attempt of a batch, and may do so late. The
driver creates a manifest for one attempt, or finds one; it may die at any time, since all that it
knows is which batch is due. Requests to adopt are never lost for good: one for any batch that has a
manifest may reach any leader at any time, one that was replaced too. A leader copies one part at a
time into its open segment, with an adopt end behind it, and hears of its seal when it stores that
segment.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class SinkFault(Enum):
    """A rule broken on purpose."""

    END_IN_NEXT_SEGMENT = "an adopt end lies in the segment after its part"
    LOST_AT_SECOND_TAKEOVER = "a leadership begins without the sinks of the one before"
    ALREADY_BEFORE_COMMIT = "a repeat is answered from memory"
    FORGOTTEN_EARLY = "a sink is forgotten while its manifests are adopted"
    SECOND_MANIFEST = "a manifest replaces another"
    SWEPT_BEFORE_VOID = "objects without a manifest go while a driver may name them"
    SWEPT_BY_THE_MANIFEST = "objects go because a manifest is there, whatever checkpoints say"
    SWEPT_IN_PART = "objects go once a checkpoint has a part of their batch"
    REFUSED_UNFENCED = "a replaced leader refuses for good"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBounds:
    batches: int = 2
    parts: int = 1
    attempts: int = 1
    chains: int = 3
    fault: SinkFault | None = None


class SinkState(NamedTuple):
    """The last batch that a partition knows of the sink, and how many parts of it."""

    batch: int = -1
    done: int = 0


class Record(NamedTuple):
    batch: int
    part: int
    attempt: int


Item = Record | SinkState
"""A part, or the adopt end behind it."""

Segment = tuple[Item, ...]

NOT_YET, THERE, SWEPT = 0, 1, 2
NO_MANIFEST, VOID = -1, -2


class LeaderOfSink(NamedTuple):
    """The writer of one chain."""

    begin: SinkState = SinkState()
    """In its leadership-begin entry."""
    memory: SinkState = SinkState()
    opened: Segment = ()
    stored: tuple[Segment, ...] = ()
    late_end: SinkState | None = None
    is_sealed: bool = False
    is_dead: bool = False


class SinkWorld(NamedTuple):
    objects: tuple[tuple[int, ...], ...]
    """By batch and attempt."""
    manifests: tuple[int, ...]
    """By batch the attempt that counts."""
    leaders: tuple[LeaderOfSink, ...] = (LeaderOfSink(),)
    checkpoint: SinkState = SinkState()
    """The newest that any durable checkpoint says."""
    due: int = 0
    """The batch that the driver is at: those below were reported as adopted."""
    wrong: str = ""


def first_world(bounds: SinkBounds) -> SinkWorld:
    objects = ((NOT_YET,) * bounds.attempts,) * bounds.batches
    return SinkWorld(objects, (NO_MANIFEST,) * bounds.batches)


SinkMove = tuple[str, SinkWorld]


def sink_moves(world: SinkWorld, bounds: SinkBounds) -> Iterator[SinkMove]:
    for batch in range(min(world.due + 1, bounds.batches)):
        for attempt in range(bounds.attempts):
            yield from _stage(world, bounds, batch, attempt)
        yield from _sweep(world, bounds, batch)
        if world.manifests[batch] >= 0:
            for number, leader in enumerate(world.leaders):
                if not leader.is_dead:
                    yield from _adopt(world, bounds, batch, number)
    for number in range(len(world.leaders)):
        yield from _lead(world, bounds, number)


# The driver and its tasks


def _stage(world: SinkWorld, bounds: SinkBounds, batch: int, attempt: int) -> Iterator[SinkMove]:
    state, manifest = world.objects[batch][attempt], world.manifests[batch]
    if state == NOT_YET:
        yield "task stages", _with_object(world, batch, attempt, THERE)
        return
    may_replace = bounds.fault is SinkFault.SECOND_MANIFEST and manifest >= 0
    if batch == world.due and (manifest == NO_MANIFEST or may_replace) and manifest != attempt:
        yield "driver commits", _with_manifest(world, batch, attempt)


def _with_object(world: SinkWorld, batch: int, attempt: int, state: int) -> SinkWorld:
    mine = _replaced(world.objects[batch], attempt, state)
    return world._replace(objects=_replaced(world.objects, batch, mine))


def _with_manifest(world: SinkWorld, batch: int, manifest: int) -> SinkWorld:
    return world._replace(manifests=_replaced(world.manifests, batch, manifest))


def _with_leader(world: SinkWorld, number: int, leader: LeaderOfSink) -> SinkWorld:
    return world._replace(leaders=_replaced(world.leaders, number, leader))


def _replaced(items: tuple[T, ...], at: int, item: T) -> tuple[T, ...]:
    return (*items[:at], item, *items[at + 1 :])


# Leaders


def _adopt(world: SinkWorld, bounds: SinkBounds, batch: int, number: int) -> Iterator[SinkMove]:
    leader, attempt = world.leaders[number], world.manifests[batch]
    known = leader.memory
    if _has(known, batch, bounds):
        is_safe = bounds.fault is SinkFault.ALREADY_BEFORE_COMMIT
        if batch == world.due and (is_safe or _has(_replayed(leader), batch, bounds)):
            yield "driver hears that a batch is adopted", world._replace(due=batch + 1)
        return
    if world.objects[batch][attempt] != THERE:
        yield from _refuse(world, bounds, number)
        return
    part = known.done if known.batch == batch else 0
    end = SinkState(batch, part + 1)
    after = leader._replace(memory=end, opened=(*leader.opened, Record(batch, part, attempt)))
    if bounds.fault is SinkFault.END_IN_NEXT_SEGMENT:
        if leader.late_end is None:
            yield "a part is copied", _with_leader(world, number, after._replace(late_end=end))
    else:
        after = after._replace(opened=(*after.opened, end))
        yield "a part is copied", _with_leader(world, number, after)


def _refuse(world: SinkWorld, bounds: SinkBounds, number: int) -> Iterator[SinkMove]:
    """A staged object is gone that this leader would copy: it looks for a seal first."""
    leader = world.leaders[number]
    if not leader.is_sealed:
        yield "staging is gone", world._replace(wrong="a leader needs what was swept")
    elif bounds.fault is SinkFault.REFUSED_UNFENCED:
        yield "staging is gone", world._replace(wrong="a replaced leader ends a query")
    else:
        fenced = leader._replace(is_dead=True, opened=())
        yield "a replaced leader looks for its seal", _with_leader(world, number, fenced)


def _lead(world: SinkWorld, bounds: SinkBounds, number: int) -> Iterator[SinkMove]:
    leader = world.leaders[number]
    if leader.opened and not leader.is_dead:
        yield _store(world, number)
    if leader.is_sealed:
        return
    state = _replayed(leader)
    if state > world.checkpoint:
        yield "checkpoint is stored", world._replace(checkpoint=state)
    if number + 1 < bounds.chains:
        is_lost = bounds.fault is SinkFault.LOST_AT_SECOND_TAKEOVER
        begin = _replayed(leader._replace(begin=SinkState())) if is_lost else state
        sealed = _with_leader(world, number, leader._replace(is_sealed=True))
        taken = LeaderOfSink(begin=begin, memory=begin)
        yield "chain is taken over", sealed._replace(leaders=(*sealed.leaders, taken))
    if bounds.fault is SinkFault.FORGOTTEN_EARLY and leader.memory != SinkState():
        forgetful = leader._replace(memory=SinkState())
        yield "sink is forgotten", _with_leader(world, number, forgetful)


def _store(world: SinkWorld, number: int) -> SinkMove:
    leader = world.leaders[number]
    if leader.is_sealed:
        dead = leader._replace(is_dead=True, opened=(), late_end=None)
        return "put meets a seal", _with_leader(world, number, dead)
    late = () if leader.late_end is None else (leader.late_end,)
    stored = (*leader.stored, leader.opened)
    after = leader._replace(stored=stored, opened=late, late_end=None)
    return "segment is stored", _with_leader(world, number, after)


def _replayed(leader: LeaderOfSink) -> SinkState:
    state = leader.begin
    for segment in leader.stored:
        for item in segment:
            state = item if isinstance(item, SinkState) else state
    return state


def _has(state: SinkState, batch: int, bounds: SinkBounds) -> bool:
    return state.batch > batch or state == SinkState(batch, bounds.parts)


# The sweeper


def _sweep(world: SinkWorld, bounds: SinkBounds, batch: int) -> Iterator[SinkMove]:
    manifest, fault = world.manifests[batch], bounds.fault
    for attempt, state in enumerate(world.objects[batch]):
        if state != THERE:
            continue
        gone = _with_object(world, batch, attempt, SWEPT)
        if manifest == NO_MANIFEST:
            if fault is SinkFault.SWEPT_BEFORE_VOID:
                yield "sweeper deletes", gone
            else:
                yield "sweeper gives a batch up", _with_manifest(world, batch, VOID)
        elif (
            manifest != attempt
            or _has(world.checkpoint, batch, bounds)
            or fault is SinkFault.SWEPT_BY_THE_MANIFEST
            or (fault is SinkFault.SWEPT_IN_PART and world.checkpoint.batch >= batch)
        ):
            yield "sweeper deletes", gone


def sink_wrong_with(world: SinkWorld, bounds: SinkBounds) -> str:
    """Why this state must not be; empty when nothing is wrong."""
    if world.wrong:
        return world.wrong
    records = [
        item
        for leader in world.leaders
        for segment in leader.stored
        for item in segment
        if isinstance(item, Record)
    ]
    order = [(one.batch, one.part) for one in records]
    whole = [(batch, part) for batch in range(bounds.batches) for part in range(bounds.parts)]
    if order != whole[: len(order)]:
        return "records are doubled, lost or out of order"
    if len({(one.batch, one.attempt) for one in records}) > len({one.batch for one in records}):
        return "two attempts of a batch are in the log"
    if len(order) < world.due * bounds.parts:
        return "a batch that was reported as adopted is not in the log"
    return ""
