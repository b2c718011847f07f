"""Which leaderships of one partition count, where chains contradict each other. Pure.

Brokers that served an older copy of the registry gave numbers of leaderships away a second time.
Example, as (leader epoch, chain, offsets):

    (0, 1, [0, 5))   (1, 2, [5, 9))             what happened before the copy was put back
                     (1, 3, [5, 5))             a broker that was started on the copy

Leaderships with records count: the records were acknowledged. They must follow each other without
an overlap. A leadership without records promises nothing; it counts if it fits between the others,
and is left out if it does not. Where two that hold records contradict each other, both have
acknowledged offsets, and no rule can keep both: a person chooses a chain to leave out.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.protocol.rules.checks import WrittenRange
from logstore.restore.decisions.missing import MissingObjects, prefixes_of_chain

NOTHING: Mapping[int, int] = {}
"""Ends of deleted records by partition, where no chain notes any."""


class Lead(NamedTuple):
    """One leadership as its chain holds it; offsets below `gone` are deleted."""

    leader_epoch: int
    chain: int
    extent: WrittenRange
    gone: int

    @property
    def has_records(self) -> bool:
        return self.extent.end > self.extent.start


@dataclass(frozen=True, slots=True)
class Settled:
    """Both in the order of their leader epochs."""

    kept: Sequence[Lead]
    left_out: Sequence[Lead]
    log_start: int = 0
    """The end of the last hole between two of `kept` whose records were deleted."""
    listed_from: int = 0
    """The end of the last hole at all: the table, if anything, holds the offsets below."""


class Contradiction(Corrupt):
    """Two leaderships hold records, and both cannot be of one history."""


def settle(
    name: str,
    leads: Sequence[Lead],
    chains_left_out: Collection[int],
    deleted_below: int = 0,
    *,
    noted: Mapping[int, int] = NOTHING,
    table_end: int = 0,
    holes_deleted: bool = False,
) -> Settled:
    """Which of `leads` count. `name` is the partition's, for errors.

    `deleted_below` is the log start that the old row gives a reason for. A hole below it is no
    loss: the owner of an open chain forgets leaderships that lie below it (`epoch.forgetting`), and
    `noted` has, by chain, below which offset it did. Nor is one below `table_end`, since the table
    holds the records. Nor is any other hole with `holes_deleted`: the operator says that the
    records were deleted.

    `chains_left_out` are left out only where leaderships contradict each other. Raises
    `Contradiction` when they still do, `MissingObjects` when there is a hole between two.
    """
    ordered = sorted(leads)
    if holes_deleted:
        deleted_below = max(deleted_below, *(lead.extent.start for lead in ordered))
    known = _LostBelow(max(deleted_below, *noted.values(), 0), table_end)
    try:
        return _settle(name, ordered, [], known)
    except Contradiction:
        chosen = [lead for lead in ordered if lead.chain in chains_left_out]
        if not chosen or len(chosen) == len(ordered):
            raise
    believed = [offset for chain, offset in noted.items() if chain not in chains_left_out]
    known = _LostBelow(max(deleted_below, *believed, 0), table_end)
    return _settle(name, [lead for lead in ordered if lead not in chosen], chosen, known)


class _LostBelow(NamedTuple):
    """Below which offsets records were deleted, or are in the table."""

    deleted_below: int
    table_end: int


def _settle(name: str, leads: Sequence[Lead], chosen: Sequence[Lead], known: _LostBelow) -> Settled:
    with_records = [lead for lead in leads if lead.has_records]
    for earlier, later in pairwise(with_records):
        if _contradict(earlier, later):
            raise _contradiction(name, earlier, later)
    left_out = [*chosen, *_misfits(leads, with_records, chosen)]
    kept = [lead for lead in leads if lead not in left_out]
    log_start = listed_from = 0
    for earlier, later in pairwise(kept):
        start = later.extent.start
        if earlier.extent.end == start:
            continue
        if earlier.extent.end > start or start > max(known):
            raise _hole(name, earlier, later)
        listed_from = start
        if start > known.table_end:
            log_start = start
    return Settled(kept, sorted(left_out), log_start, listed_from)


def _misfits(
    leads: Sequence[Lead], with_records: Sequence[Lead], chosen: Sequence[Lead]
) -> Iterator[Lead]:
    """Leaderships without records that other ones show to be of another history."""
    over = {lead.extent.end for lead in chosen}
    for number, some in groupby(leads, key=attrgetter("leader_epoch")):
        before = [lead.extent.end for lead in with_records if lead.leader_epoch < number]
        is_taken = any(lead.leader_epoch == number for lead in with_records)
        for lead in (one for one in some if not one.has_records):
            start = lead.extent.start
            is_behind = bool(before) and start < before[-1]
            goes_on = bool(before) and start > before[-1] and start in over
            if is_taken or is_behind or goes_on:
                yield lead
            else:
                is_taken = True  # of two that fit, the one whose chain is older


def _contradict(earlier: Lead, later: Lead) -> bool:
    is_twice = earlier.leader_epoch == later.leader_epoch
    return is_twice or later.extent.start < earlier.extent.end


def _contradiction(name: str, earlier: Lead, later: Lead) -> Contradiction:
    older, younger = sorted((earlier, later), key=attrgetter("chain"))
    return Contradiction(
        f"two chains hold one leadership: {name} leader_epoch={later.leader_epoch} "
        f"chains={earlier.chain},{later.chain}; both have records, offsets "
        f"{_shown(older)} in chain {older.chain} and {_shown(younger)} in chain {younger.chain}: "
        "brokers have served an older copy of the registry. Look at both with logstore inspect "
        f"chain, then leave one out: --leave-out {younger.chain} keeps the records from "
        f"before chain {younger.chain} was opened"
    )


def _hole(name: str, earlier: Lead, later: Lead) -> MissingObjects:
    return MissingObjects(
        f"epoch ranges do not meet: {name} leader_epoch={earlier.leader_epoch} "
        f"end={earlier.extent.end} next={later.extent.start}; objects are missing: put them back "
        "from a copy; or, if retention or a client had deleted the offsets between these two, so "
        "that their chain forgot them: --holes-deleted puts log start above them",
        prefixes_of_chain(earlier.chain),
    )


def _shown(lead: Lead) -> str:
    return f"[{lead.extent.start}, {lead.extent.end})"
