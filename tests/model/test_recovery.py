"""Whatever copy of the registry is put back, nothing is lost, and restore gives everything back."""

from dataclasses import replace

import pytest

from tests.model.explore import Found, explore
from tests.model.recovery import Bounds, Fault, World, moves, wrong_with

SMALL, LARGER = Bounds(offsets=2), Bounds(offsets=3)
MUST_HAPPEN = {
    "a deleted segment is back",
    "deletion: row is forgotten",
    "offset moves to the table",
    "restore",
    "segment is deleted",
    "table drops what is below log start",
    "table is dropped",
    "the copy is put back",
    "the registry is lost",
}


def search_recovery(bounds: Bounds) -> Found:
    return explore(
        World(), lambda world: moves(world, bounds), lambda world: wrong_with(world, bounds)
    )


def prove(bounds: Bounds) -> None:
    found = search_recovery(bounds)
    assert not found.wrong, "\n".join([found.wrong, *found.trace])
    assert not MUST_HAPPEN - found.happened


@pytest.mark.slow
def test_an_older_registry_costs_nothing_and_restore_gives_all_back() -> None:
    prove(SMALL)


@pytest.mark.slow
def test_an_older_registry_costs_nothing_within_wider_bounds() -> None:
    prove(LARGER)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
def test_a_broken_rule_of_recovery_is_found(fault: Fault) -> None:
    found = search_recovery(replace(SMALL, fault=fault))
    assert found.wrong, f"not found among {found.states} states"
    assert found.trace


def test_the_shortest_trace_to_a_lost_record_tells_its_story() -> None:
    found = search_recovery(replace(SMALL, fault=Fault.NO_ROW_IS_DELETED))
    assert found.wrong == "a record is lost"
    assert found.trace == [
        "topic: record is stored",
        "topic: row says live",
        "log grows",
        "the registry is lost",
        "trim point rises",
        "segment is deleted",
    ]
