"""Long work in slices: lists and dicts are emptied from their end, and nothing else is touched."""

from collections import Counter

from logstore.slices import emptied


def test_a_list_is_emptied_a_part_at_a_time() -> None:
    items = [*range(10)]
    left = [len(items) for _ in emptied(items, 4)]
    assert (left, items) == ([6, 2, 0], [])
    assert [*emptied(items)] == [*emptied(None)] == [*emptied((1, 2))] == []


def test_a_dict_is_emptied_a_part_at_a_time() -> None:
    items = Counter(range(10))
    left = [len(items) for _ in emptied(items, 4)]
    assert (left, items) == ([6, 2, 0], {})
