"""Where a group is sent: by name, number, time or distance, within what there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.cli.decisions.offset_reset import Target, choose, parse_target
from logstore.errors import Invalid

STARTS, ENDS = {0: 10, 1: 0}, {0: 20, 1: 5}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(timestamp=-2)),
        ("latest", Target(timestamp=-1)),
        ("42", Target(offset=42)),
        ("1970-01-02", Target(timestamp=86_400_000)),
        ("1970-01-01T01:00:00+01:00", Target(timestamp=0)),
    ],
)
def test_a_target_is_understood(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", "-1", "soon", "2026-13-01"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_target(text)


def test_an_offset_is_brought_within_the_partition() -> None:
    assert choose(Target(offset=12), {}, STARTS, ENDS, {}) == {0: 12, 1: 5}
    assert choose(Target(offset=0), {}, STARTS, ENDS, {}) == {0: 10, 1: 0}


def test_a_shift_counts_from_what_was_committed_else_from_the_start() -> None:
    assert choose(Target(shift=-3), {0: 15}, STARTS, ENDS, {}) == {0: 12, 1: 0}
    assert choose(Target(shift=3), {0: 19}, STARTS, ENDS, {}) == {0: 20, 1: 3}


def test_a_time_after_everything_is_the_end() -> None:
    assert choose(Target(timestamp=9), {}, STARTS, ENDS, {0: 13, 1: -1}) == {0: 13, 1: 5}


@given(shift=st.integers(-100, 100), committed=st.integers(0, 40))
def test_what_is_chosen_can_be_read(shift: int, committed: int) -> None:
    chosen = choose(Target(shift=shift), {0: committed}, STARTS, ENDS, {})

    assert all(STARTS[p] <= offset <= ENDS[p] for p, offset in chosen.items())
