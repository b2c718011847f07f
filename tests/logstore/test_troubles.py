"""Troubles that last are reported at first, from time to time, and when they are over."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from logstore.troubles import LastingTroubles


def due_at(troubles: LastingTroubles, times_s: Iterable[float]) -> list[float]:
    """At which of `times_s`, when one trouble occurs, it is to be reported."""
    return [now_s for now_s in times_s if troubles.occurred("full", now_s) is not None]


def test_a_trouble_is_due_at_once_and_not_again() -> None:
    assert due_at(LastingTroubles(), range(100, 1_000)) == [100]


def test_a_trouble_is_due_once_it_has_lasted_then_at_intervals() -> None:
    troubles = LastingTroubles(after_s=1.0, again_s=60.0)
    assert due_at(troubles, (10 + step / 2 for step in range(300))) == [11, 71, 131]


def test_it_is_known_for_how_long_a_trouble_lasts() -> None:
    troubles = LastingTroubles(again_s=60.0)
    assert [troubles.occurred("full", now_s) for now_s in (5, 30, 70)] == [0, None, 65]
    assert troubles.ended("full", 75) == 70


def test_the_end_of_what_was_not_reported_is_not_reported() -> None:
    troubles = LastingTroubles(after_s=1.0)
    assert troubles.occurred("full", 10.0) is None
    assert troubles.ended("full", 20.0) is None
    assert troubles.ended("never seen", 20.0) is None


def test_a_trouble_that_comes_back_is_due_again() -> None:
    troubles = LastingTroubles()
    assert due_at(troubles, [1]) == [1]
    assert troubles.ended("full", 2) == 1
    assert troubles.ended("full", 3) is None
    assert due_at(troubles, [4, 5]) == [4]


def test_of_all_troubles_there_are_now_the_new_ones_are_due() -> None:
    troubles = LastingTroubles()
    passes = [["a", "b"], ["b", "c"], ["a", "b"], [], ["b"]]
    due = [troubles.replace(now, now_s) for now_s, now in enumerate(passes)]
    assert due == [["a", "b"], ["c"], ["a"], [], ["b"]]


def test_no_more_than_so_many_are_remembered() -> None:
    troubles = LastingTroubles(count_max=2)
    due = [one for one in "abbcabc" if troubles.occurred(one, 0.0) is not None]
    assert due == ["a", "b", "c", "a", "b", "c"]


EVENTS = st.lists(st.tuples(st.integers(1, 20), st.booleans()), max_size=30)


@given(EVENTS, st.integers(0, 30), st.integers(1, 30))
def test_reports_of_one_trouble_keep_their_distance(
    events: list[tuple[int, bool]], after_s: int, again_s: int
) -> None:
    troubles = LastingTroubles(after_s=after_s, again_s=again_s)
    now_s = 0
    since_s: int | None = None
    reported_at_s: int | None = None
    for step_s, is_over in events:
        now_s += step_s
        if is_over:
            for_s = troubles.ended("full", now_s)
            if since_s is None or reported_at_s is None:
                assert for_s is None
            else:
                assert for_s == now_s - since_s
            since_s = reported_at_s = None
            continue
        since_s = now_s if since_s is None else since_s
        next_s = since_s + after_s if reported_at_s is None else reported_at_s + again_s
        assert troubles.occurred("full", now_s) == (now_s - since_s if now_s >= next_s else None)
        reported_at_s = now_s if now_s >= next_s else reported_at_s
