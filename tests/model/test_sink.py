"""A sink's batches are in the log once and in order, in every order of its steps."""

from dataclasses import replace

import pytest

from tests.model.explore import Found, explore
from tests.model.sink import SinkBounds, SinkFault, first_world, sink_moves, sink_wrong_with

SMALL = SinkBounds(batches=1, parts=1)
ORDER = SinkBounds(batches=2, parts=1)
PARTS = SinkBounds(batches=1, parts=2)
ATTEMPTS = SinkBounds(batches=1, parts=2, attempts=2)
WIDE = SinkBounds(batches=2, parts=2, attempts=2)

FOUND_BY = {
    SinkFault.END_IN_NEXT_SEGMENT: SMALL,
    SinkFault.LOST_AT_SECOND_TAKEOVER: SMALL,
    SinkFault.ALREADY_BEFORE_COMMIT: SMALL,
    SinkFault.FORGOTTEN_EARLY: SMALL,
    SinkFault.SECOND_MANIFEST: ATTEMPTS,
    SinkFault.SWEPT_BEFORE_VOID: SMALL,
    SinkFault.SWEPT_BY_THE_MANIFEST: SMALL,
    SinkFault.SWEPT_IN_PART: PARTS,
    SinkFault.REFUSED_UNFENCED: SMALL,
}

ALWAYS = {
    "task stages",
    "driver commits",
    "a part is copied",
    "segment is stored",
    "checkpoint is stored",
    "chain is taken over",
    "put meets a seal",
    "driver hears that a batch is adopted",
    "sweeper gives a batch up",
    "sweeper deletes",
    "a replaced leader looks for its seal",
}


def search_sink(bounds: SinkBounds) -> Found:
    return explore(
        first_world(bounds),
        lambda world: sink_moves(world, bounds),
        lambda world: sink_wrong_with(world, bounds),
    )


def prove(bounds: SinkBounds) -> None:
    found = search_sink(bounds)
    assert not found.wrong, "\n".join([found.wrong, *found.trace])
    assert not ALWAYS - found.happened


def test_every_fault_of_a_sink_has_a_search() -> None:
    assert set(FOUND_BY) == set(SinkFault)


@pytest.mark.parametrize("bounds", [SMALL, PARTS], ids=["one-part", "two-parts"])
def test_a_batch_is_adopted_once(bounds: SinkBounds) -> None:
    prove(bounds)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [ORDER, ATTEMPTS], ids=["two-batches", "two-attempts"])
def test_batches_and_attempts_do_not_mix(bounds: SinkBounds) -> None:
    prove(bounds)


@pytest.mark.parametrize("fault", list(SinkFault), ids=lambda fault: fault.name)
def test_a_broken_rule_of_a_sink_is_found(fault: SinkFault) -> None:
    found = search_sink(replace(FOUND_BY[fault], fault=fault))
    assert found.wrong, f"not found among {found.states} states"
    assert found.trace
