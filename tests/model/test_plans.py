"""A batch that was planned is read whole and once, in every order of moves, trims and attempts."""

from dataclasses import replace

import pytest

from tests.model.explore import Found, explore
from tests.model.plans import Bounds, Fault, World, moves, wrong_with

SMALL, LARGER = Bounds(offsets=2), Bounds(offsets=3)
MUST_HAPPEN = {
    "attempt dies",
    "driver crashes",
    "task fails: below log start",
    "task gets a segment",
    "task is done",
    "task meets a 404, resolves again",
    "task reads the table",
    "task runs again",
}


def search_plans(bounds: Bounds) -> Found:
    return explore(
        World(), lambda world: moves(world, bounds), lambda world: wrong_with(world, bounds)
    )


def prove(bounds: Bounds) -> None:
    found = search_plans(bounds)
    assert not found.wrong, "\n".join([found.wrong, *found.trace])
    assert not MUST_HAPPEN - found.happened


@pytest.mark.slow
def test_a_batch_is_read_whole_and_once() -> None:
    prove(SMALL)


@pytest.mark.slow
def test_a_batch_is_read_whole_and_once_within_wider_bounds() -> None:
    prove(LARGER)


@pytest.mark.slow
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
def test_a_broken_rule_of_planned_reads_is_found(fault: Fault) -> None:
    found = search_plans(replace(LARGER, fault=fault))
    assert found.wrong, f"not found among {found.states} states"
    assert found.trace
