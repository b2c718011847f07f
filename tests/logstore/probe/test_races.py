"""Judging races: which stores are distinguished."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.probe.races import Race, RaceOutcome, judge

RACES = st.builds(
    Race,
    st.lists(st.sampled_from(RaceOutcome), min_size=8, max_size=8).map(tuple),
    st.none() | st.integers(0, 7),
)


def race(outcomes: str, found: int | None) -> Race:
    """`W`on, `L`ost, `?` unknown."""
    of = {"W": RaceOutcome.WON, "L": RaceOutcome.LOST, "?": RaceOutcome.UNKNOWN}
    return Race(tuple(of[letter] for letter in outcomes), found)


def faults(*races: Race) -> Sequence[str]:
    return judge("races", races).faults


def test_one_winner_whose_bytes_are_there_is_no_fault() -> None:
    tally = judge("races", [race("LWL", 1), race("WLL", 0), race("L?W", 2)])
    assert (tally.rounds, tally.judged, tally.winners, tally.faults) == (3, 3, {1: 3}, ())


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (race("WWW", 0), "1 of 2 rounds had more than one winner, up to 3 of 3"),
        (race("WL?", 1), "in 1 of 2 rounds the key did not hold the winner's bytes"),
        (race("WLL", None), "in 1 of 2 rounds the key did not hold the winner's bytes"),
        (race("LLL", 2), "1 of 2 rounds had no winner, although the key holds bytes"),
    ],
)
def test_one_bad_round_is_enough(bad: Race, why: str) -> None:
    assert faults(race("WLL", 0), bad) == (f"races: {why}",)


@pytest.mark.parametrize(
    "undecided", [race("LLL", None), race("L?L", None), race("L?L", 1), race("???", 2)]
)
def test_a_round_of_lost_answers_says_nothing(undecided: Race) -> None:
    assert not undecided.is_judged
    assert faults(race("WLL", 0), undecided) == ()
    assert "try again" in faults(race("WLL", 0), undecided, undecided)[0]


@given(st.lists(RACES, min_size=1, max_size=20))
def test_a_store_that_passes_had_one_winner_in_every_round_it_was_judged_by(
    races: list[Race],
) -> None:
    tally = judge("races", races)
    assert sum(tally.winners.values()) == tally.judged
    if not tally.faults:
        judged = [race for race in races if race.is_judged]
        assert all(race.winners == [race.found] for race in judged)
        assert len(judged) * 2 >= len(races)
