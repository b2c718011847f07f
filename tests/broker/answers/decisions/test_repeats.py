"""What a request names twice is answered once, with all that was asked about it."""

from collections import Counter

from broker.answers.decisions.repeats import (
    SLICE_TOPICS,
    counted,
    merge_groups,
    merge_topics,
    without_repeats,
)
from logstore.slices import finish


def test_items_stay_in_the_order_in_which_they_were_named_first() -> None:
    assert without_repeats(["b", "a", "b", "c", "a"]) == ["b", "a", "c"]
    assert without_repeats(None) == []


def test_names_are_counted_in_slices() -> None:
    names = [f"t{number % 7}" for number in range(3 * SLICE_TOPICS)]

    assert sum(1 for _ in counted(names)) == 3
    assert finish(counted(names)) == Counter(names)
    assert finish(counted([])) == {}


def test_groups_are_merged_with_their_topics_and_partitions() -> None:
    asked = [("g", [("t", [1, 1])]), ("h", [("t", [0])]), ("g", [("u", [0]), ("t", [2, 1])])]

    assert finish(merge_groups(asked)) == [("g", [("t", [1, 2]), ("u", [0])]), ("h", [("t", [0])])]


def test_all_topics_of_a_group_hold_those_that_are_named() -> None:
    assert finish(merge_groups([("g", [("t", [1])]), ("g", None), ("g", [("u", [1])])])) == [
        ("g", None)
    ]
    assert finish(merge_groups([("g", None)] * 1000)) == [("g", None)]


def test_topics_are_merged_however_many_there_are() -> None:
    asked = [(f"t{number % 2500}", [number % 3, 1]) for number in range(5000)]
    merged = finish(merge_topics(asked))

    assert len(merged) == 2500
    assert merged["t0"] == [0, 1]
    assert finish(merge_topics([("t", [1, 1]), ("t", [2])])) == {"t": [1, 2]}
