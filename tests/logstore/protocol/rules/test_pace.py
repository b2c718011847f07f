"""How soon a follower looks again: soon enough, and not for more than it is worth."""

from hypothesis import given
from hypothesis import strategies as st

from logstore.protocol.rules.pace import DELAY_BUSY_S, DELAY_MAX_S, DELAY_MIN_S, WIDTH_MAX, PollPace


def after(pace: PollPace, *found: int) -> PollPace:
    for count in found:
        pace = pace.after(count)
    return pace


def looks_at(segments_per_s: float, seconds: float) -> tuple[int, int, float]:
    """Seqs asked for and found in a while of steady flow, and the longest a segment waited."""
    pace, now_s, seen, asked, worst_s = PollPace(), 0.0, 0, 0, 0.0
    while now_s < seconds:
        now_s += pace.delay_s
        asked += pace.width
        there = int(now_s * segments_per_s)
        found = min(pace.width, there - seen)
        for number in range(seen + 1, seen + found + 1):
            worst_s = max(worst_s, now_s - number / segments_per_s)
        seen += found
        pace = pace.after(found)
    return asked, seen, worst_s


@given(st.lists(st.integers(0, WIDTH_MAX), max_size=50))
def test_waits_and_widths_stay_in_their_bounds(found: list[int]) -> None:
    pace = PollPace()
    for count in found:
        pace = pace.after(min(count, pace.width))
        assert DELAY_MIN_S <= pace.delay_s <= DELAY_MAX_S
        assert 1 <= pace.width <= WIDTH_MAX


def test_where_nothing_happens_it_looks_once_a_second() -> None:
    assert after(PollPace(), *[0] * 10) == PollPace(DELAY_MAX_S, 1)


def test_what_comes_after_a_silence_ends_the_long_waits() -> None:
    assert after(PollPace(), *[0] * 10, 1).delay_s <= DELAY_BUSY_S


def test_a_steady_flow_costs_a_quarter_more_looks_than_it_has_segments() -> None:
    asked, seen, worst_s = looks_at(10, 60)

    assert seen >= 595
    assert asked <= 1.35 * seen
    assert worst_s <= 0.5


def test_a_fast_flow_is_kept_up_with() -> None:
    _, seen, worst_s = looks_at(100, 60)

    assert seen >= 5_980
    assert worst_s <= 1.0
