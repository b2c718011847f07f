"""Compaction, trimming and readers lose, double and skip nothing, in every order of their steps."""

from dataclasses import replace

import pytest

from tests.model.compaction import Bounds, Fault, World, moves, wrong_with
from tests.model.explore import Found, explore

SAFE = Bounds(offsets=2, entries=3, ticks=3)
SAFE_MORE = Bounds(offsets=3, entries=4, ticks=3)
UNSAFE = Bounds(offsets=2, entries=2, ticks=3, unsafe=True)
UNSAFE_MORE = Bounds(offsets=2, entries=3, ticks=4, unsafe=True)

NAMES = ["alone", "beside-an-unsafe-writer"]

ALWAYS = {
    "commit meets another",
    "table pointer rises",
    "run commits",
    "run dies",
    "segment is deleted",
    "trim point rises",
}
WITH_READER = {
    "reader gets a segment",
    "reader meets a 404, resolves again",
    "reader reads the table",
}

FOUND_BY = {
    Fault.BLIND_APPEND: SAFE,
    Fault.RANGE_OUTSIDE_SNAPSHOT: SAFE,
    Fault.POINTER_BEFORE_TABLE: SAFE,
    Fault.READER_IGNORES_404: SAFE,
    Fault.DELETION_BY_THE_ROW: UNSAFE,
    Fault.NO_GRACE: UNSAFE,
    Fault.LINKS_UNCHECKED: UNSAFE,
    Fault.LINKS_OF_ONE_GRACE: UNSAFE,
}


def test_every_fault_has_a_search() -> None:
    assert set(FOUND_BY) == set(Fault)


def search_compaction(bounds: Bounds) -> Found:
    return explore(
        World(), lambda world: moves(world, bounds), lambda world: wrong_with(world, bounds)
    )


def prove(bounds: Bounds) -> None:
    found = search_compaction(bounds)
    assert not found.wrong, "\n".join([found.wrong, *found.trace])
    expected = ALWAYS | ({"unsafe writer overwrites"} if bounds.unsafe else WITH_READER)
    assert not expected - found.happened


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [SAFE, UNSAFE], ids=NAMES)
def test_nothing_is_lost_doubled_or_skipped(bounds: Bounds) -> None:
    prove(bounds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds", [SAFE_MORE, UNSAFE_MORE], ids=["alone", "beside-an-unsafe-writer"]
)
def test_nothing_is_lost_doubled_or_skipped_within_wider_bounds(bounds: Bounds) -> None:
    prove(bounds)


@pytest.mark.slow
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
def test_a_broken_rule_of_compaction_is_found(fault: Fault) -> None:
    found = search_compaction(replace(FOUND_BY[fault], fault=fault))
    assert found.wrong, f"not found among {found.states} states"
    assert found.trace
