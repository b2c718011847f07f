"""`logstore fsck` held against the checker of the simulation: which worlds does each call broken?

A world that has ended is copied and broken on purpose, or not: an object goes, a bit flips, a row
goes, the registry is put back from a copy. The checker reads everything and compares it with what
was produced; fsck knows stored bytes alone.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from logstore.errors import LogstoreError
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.keys import chain_prefix, segment_key
from logstore.objects.memory import MemoryObjects
from logstore.protocol.rules.checks import ProblemKind
from logstore.registry.memory import MemoryRows
from logstore.testing.virtual_loop import VirtualClock, run
from tests.simulation.tiers.fsck import check_stored, shown
from tests.simulation.tiers.world import TierWorld

HARMS = ("none", "object lost", "bit flipped", "row lost", "registry put back")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What was done to one copy of a world, and what each says is wrong with it."""

    harm: str
    checker: tuple[str, ...]
    fsck: tuple[str, ...]

    @property
    def agree(self) -> bool:
        return bool(self.checker) == bool(self.fsck)


class Stored:
    """A copy of what a world has stored, to be harmed."""

    def __init__(self, world: TierWorld) -> None:
        self.objects = MemoryObjects(VirtualClock())
        for info in world.objects.list(""):
            self.objects.create(info.key, [world.objects.get(info.key)])
        self.rows = MemoryRows()
        self.rows.put_back(world.rows.copy())

    def replace(self, key: str, data: bytes) -> None:
        self.objects.delete(key)
        self.objects.create(key, [data])


def break_and_ask(world: TierWorld, rng: random.Random, harm: str) -> Verdicts:
    """`world` has ended and is whole; it is left as it is."""

    async def ask() -> Verdicts:
        stored = Stored(world)
        reported = _HARMS[harm](world, stored, rng)
        return Verdicts(reported, tuple(_checked(world, stored)), tuple(_fsck(stored)))

    return run(ask())


def _fsck(stored: Stored) -> list[str]:
    try:
        problems = check_stored(stored.objects, stored.rows)
    except LogstoreError as error:
        return [repr(error)]
    # Rows of partitions that a late creation left: the next start clears them away.
    return [shown(problem) for problem in problems if problem.what is not ProblemKind.NO_TOPIC]


def _checked(world: TierWorld, stored: Stored) -> list[str]:
    """What the checker says of it; a checker that cannot read it says that."""
    history, kept = world.history, list(world.violations)
    before = len(history.violations)
    objects, rows, seen = world.objects, world.rows, Counter(world.seen)
    world.objects, world.rows = stored.objects, stored.rows
    try:
        found = world.audit()
        history.check_end(found.records, found.log_starts, found.begins, all_was_read=False)
        mine = [*found.violations, *world.violations[len(kept) :], *history.violations[before:]]
        mine += _committed_and_gone(stored)
        for topic_id in world.live_topics:
            if not history.is_deleted(topic_id):
                mine += [
                    "a live topic is not there"
                    for row in [topic_id]
                    if row not in {one.topic_id for one in found.topics.values()}
                ]
    except (LogstoreError, AssertionError, LookupError, ValueError, OSError) as error:
        mine = [f"cannot be read: {error!r}"]
    finally:
        world.objects, world.rows = objects, rows
        world.violations[:] = kept
        del history.violations[before:]
        world.seen = seen
    return mine


def _committed_and_gone(stored: Stored) -> list[str]:
    """Segments that a broker had committed by its last heartbeat: of records or not."""
    rows, gone = stored.rows.copy(), []
    for (pk, _), row in rows.items():
        if pk == BROKER:
            said = BrokerRow.of(row)
            chain = rows.get((CHAIN, chain_sk(said.epoch)))
            trim = 0 if chain is None else ChainRow.of(chain).trim
            there = {info.key for info in stored.objects.list(chain_prefix(said.epoch))}
            keys = (segment_key(said.epoch, seq) for seq in range(trim, said.committed_end))
            gone += [f"a committed segment is gone: {key}" for key in keys if key not in there]
    return gone


Harm = Callable[[TierWorld, Stored, random.Random], str]


def _nothing(world: TierWorld, stored: Stored, rng: random.Random) -> str:
    return "none"


def _lose_object(world: TierWorld, stored: Stored, rng: random.Random) -> str:
    key = _any_key(stored, rng)
    stored.objects.delete(key)
    return f"object lost: {key}"


def _flip_bit(world: TierWorld, stored: Stored, rng: random.Random) -> str:
    key = _any_key(stored, rng)
    data = bytearray(stored.objects.get(key))
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    stored.replace(key, bytes(data))
    return f"bit flipped: {key} at {at}"


def _lose_row(world: TierWorld, stored: Stored, rng: random.Random) -> str:
    rows = stored.rows.copy()
    places = sorted(key for key in rows if key[0].split("/")[0] in ROWS)
    place = rng.choice(places)
    del rows[place]
    stored.rows.put_back(rows)
    return f"row lost: {'/'.join(place)}"


ROWS = ("chain", "topic", "partition", "cluster")


def _put_back(world: TierWorld, stored: Stored, rng: random.Random) -> str:
    number = rng.randrange(len(world.copies))
    stored.rows.put_back(world.copies[number])
    return f"registry put back: copy {number} of {len(world.copies)}"


def _any_key(stored: Stored, rng: random.Random) -> str:
    """Each kind of object alike; not entries of tables' logs, which nothing checks."""
    kinds: dict[str, list[str]] = {}
    for info in stored.objects.list(""):
        if "/_delta_log/" not in info.key and info.key != "cluster.json":
            kinds.setdefault(info.key.split("/")[0], []).append(info.key)
    return rng.choice(kinds[rng.choice(sorted(kinds))])


_HARMS: dict[str, Harm] = {
    "none": _nothing,
    "object lost": _lose_object,
    "bit flipped": _flip_bit,
    "row lost": _lose_row,
    "registry put back": _put_back,
}
