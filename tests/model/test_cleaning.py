"""A consumer from offset 0 rebuilds the state of every key, in every order of runs and reads."""

from dataclasses import replace

import pytest

from tests.model.cleaning import Bounds, Fault, first, moves, wrong_with
from tests.model.explore import Found, explore

SMALL = Bounds(records=2)
ONE_KEY = Bounds(records=3)
TWO_RUNS = Bounds(records=2, runs=2)
TWO_KEYS = Bounds(records=3, keys=2)

MUST_HAPPEN = {
    "consumer ends",
    "consumer passes a gap",
    "consumer reads a segment",
    "consumer reads the table",
    "record aborts",
    "run commits",
    "run dies",
    "run is overtaken",
    "time passes",
}
FOUND_BY = {fault: TWO_RUNS if fault is Fault.OLD_SNAPSHOT else ONE_KEY for fault in Fault}


def search_cleaning(bounds: Bounds) -> Found:
    return explore(
        first(bounds), lambda world: moves(world, bounds), lambda world: wrong_with(world, bounds)
    )


def prove(bounds: Bounds) -> None:
    found = search_cleaning(bounds)
    assert not found.wrong, "\n".join([found.wrong, *found.trace])
    assert not MUST_HAPPEN - found.happened


def test_a_consumer_rebuilds_the_state() -> None:
    prove(SMALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds", [ONE_KEY, TWO_RUNS, TWO_KEYS], ids=["one-key", "two-runs", "two-keys"]
)
def test_a_consumer_rebuilds_the_state_within_wider_bounds(bounds: Bounds) -> None:
    prove(bounds)


@pytest.mark.slow
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
def test_a_broken_rule_of_key_compaction_is_found(fault: Fault) -> None:
    found = search_cleaning(replace(FOUND_BY[fault], fault=fault))
    assert found.wrong, f"not found among {found.states} states"
    assert found.trace
