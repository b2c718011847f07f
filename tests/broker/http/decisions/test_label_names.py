"""Names that become labels: bounded, and without gaps for those that are shown."""

from hypothesis import given
from hypothesis import strategies as st

from broker.http.decisions.label_names import LABEL_CHARACTERS_MAX, OTHER, ShownNames


def test_the_first_that_came_stay_and_make_room_when_they_go() -> None:
    shown = ShownNames(2)
    shown.renew(["b", "c"])
    shown.renew(["a", "b", "c"])
    assert [shown.label(name) for name in "abc"] == [OTHER, "b", "c"]
    shown.renew(["a", "c"])
    assert [shown.label(name) for name in "abc"] == ["a", OTHER, "c"]


def test_a_label_is_never_long() -> None:
    shown = ShownNames(1)
    shown.renew(["x" * 10_000])
    assert shown.label("x" * 10_000) == "x" * LABEL_CHARACTERS_MAX


@given(st.integers(0, 5), st.lists(st.sets(st.sampled_from("abcdefgh")), max_size=8))
def test_never_more_than_may_be_and_who_is_shown_stays(most: int, turns: list[set[str]]) -> None:
    shown, before = ShownNames(most), set[str]()
    for names in turns:
        shown.renew(sorted(names))
        now = {name for name in "abcdefgh" if name in shown}
        assert len(now) == min(most, len(names))
        assert before & names <= now <= names
        before = now
