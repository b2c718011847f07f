"""When brokers that join count: together, and not for ever later."""

from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.decisions.members import JOIN_GAP_S, JOIN_S_MAX, SETTLED_S, find_settled

JOINS_S = st.lists(st.integers(0, 60), min_size=1, max_size=20)
"""When brokers were first seen, in quarters of a second."""


def ages_at(joins: list[int], now_s: float) -> dict[int, float]:
    """Of those that have joined by `now_s`; a broker is its place in `joins`."""
    return {n: now_s - join / 4 for n, join in enumerate(joins) if join / 4 <= now_s}


def test_brokers_that_join_within_a_second_count_at_the_same_time() -> None:
    old = {1: 1000.0, 2: 1000.0, 3: 1000.0}
    for quarters in range(50):
        now_s = quarters / 4
        joined = {4: now_s + 1.0, 5: now_s + 0.5, 6: now_s}
        wanted = {1, 2, 3, 4, 5, 6} if now_s >= SETTLED_S else {1, 2, 3}
        assert find_settled(old | joined) == wanted


def test_one_that_joins_later_is_not_waited_for() -> None:
    assert find_settled({1: SETTLED_S, 2: SETTLED_S - JOIN_GAP_S - 0.25}) == {1}


def test_joins_without_an_end_hold_none_off_for_ever() -> None:
    joins = [4 * n for n in range(200)]
    for now_s in range(200):
        ages = ages_at(joins, now_s)
        old = {broker for broker, age_s in ages.items() if age_s >= SETTLED_S + JOIN_S_MAX}
        assert old <= find_settled(ages)


@given(JOINS_S)
def test_who_counts_goes_on_to_count_and_none_before_it_is_settled(joins: list[int]) -> None:
    before: frozenset[int] = frozenset()
    ages: dict[int, float] = {}
    for quarters in range(200):
        ages = ages_at(joins, quarters / 4)
        settled = find_settled(ages)
        assert before <= settled
        assert all(ages[broker] >= SETTLED_S for broker in settled)
        before = settled
    assert before == ages.keys()
