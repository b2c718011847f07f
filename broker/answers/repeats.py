"""Names that a request repeats are answered once. Pure.

Else a request of 80 KB that names one group 20,000 times gets an answer of gigabytes: all of the
group's offsets, each time.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

Topics = Sequence[tuple[str, Sequence[int]]] | None
"""Names and partitions; None: all that there are."""


def without_repeats(items: Iterable[T] | None) -> list[T]:
    """Each item once, in the order in which they were named first; none for None."""
    return list(dict.fromkeys(items or ()))


def merge_topics(topics: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    """Each topic once, with each partition that was asked for once.

    Example: `[("t", [1, 1]), ("t", [2])]` is `{"t": [1, 2]}`.
    """
    merged: dict[str, dict[int, None]] = {}
    for name, partitions in topics:
        merged.setdefault(name, {}).update(dict.fromkeys(partitions))
    return {name: list(partitions) for name, partitions in merged.items()}


def merge_groups(groups: Iterable[tuple[str, Topics]]) -> list[tuple[str, Topics]]:
    """Each group once, with each partition of all that was asked about it once.

    Example: `[("g", [("t", [1, 1])]), ("g", [("t", [2])])]` is `[("g", [("t", [1, 2])])]`.
    """
    merged: dict[str, dict[str, dict[int, None]] | None] = {}
    for group_id, topics in groups:
        known = merged.setdefault(group_id, {})
        if topics is None or known is None:
            merged[group_id] = None
            continue
        for name, partitions in topics:
            known.setdefault(name, {}).update(dict.fromkeys(partitions))
    return [
        (
            group_id,
            None if topics is None else [(name, list(some)) for name, some in topics.items()],
        )
        for group_id, topics in merged.items()
    ]
