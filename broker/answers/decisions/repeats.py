"""Names that a request repeats are answered once. Pure.

Else a request of 80 KB that names one group 20,000 times gets an answer of gigabytes: all of the
group's offsets, each time.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from logstore.slices import Slices

T = TypeVar("T", bound=Hashable)

Topics = Sequence[tuple[str | bytes, Sequence[int]]] | None
"""Names, or ids, and partitions; None: all that there are."""
AskedTopics = Iterable[tuple[str | bytes, Iterable[int]]] | None
"""The same before repeats are left out."""

_Partitions = dict[T, dict[int, None]]
"""By topic; the keys of each are its partitions, in order."""

SLICE_TOPICS = 1_000
"""Some 2 ms."""


def counted(items: Iterable[T]) -> Slices[Counter[T]]:
    """How often each is named."""
    counts: Counter[T] = Counter()
    left = iter(items)
    while some := list(islice(left, SLICE_TOPICS)):
        counts.update(some)
        yield
    return counts


def without_repeats(items: Iterable[T] | None) -> list[T]:
    """Each item once, in the order in which they were named first; none for None."""
    return list(dict.fromkeys(items or ()))


def merge_topics(topics: Iterable[tuple[str, Iterable[int]]]) -> Slices[dict[str, list[int]]]:
    """Each topic once, with each partition that was asked for once.

    Example: `[("t", [1, 1]), ("t", [2])]` is `{"t": [1, 2]}`.
    """
    merged: dict[str, Any] = {}
    yield from _merge_into(merged, topics)
    for number, (name, known) in enumerate(merged.items(), 1):
        merged[name] = list(known)  # in its place, so that few are freed at a time
        if number % SLICE_TOPICS == 0:
            yield
    return merged


def merge_groups(groups: Iterable[tuple[str, AskedTopics]]) -> Slices[list[tuple[str, Topics]]]:
    """Each group once, with each partition of all that was asked about it once.

    Example: `[("g", [("t", [1, 1])]), ("g", [("t", [2])])]` is `[("g", [("t", [1, 2])])]`.
    """
    merged: dict[str, _Partitions[str | bytes] | None] = {}
    for number, (group_id, topics) in enumerate(groups, 1):
        known = merged.setdefault(group_id, {})
        if topics is None or known is None:
            merged[group_id] = None
        else:
            yield from _merge_into(known, topics)
        if number % SLICE_TOPICS == 0:
            yield
    return (yield from _listed(merged))


def _merge_into(known: _Partitions[T], topics: Iterable[tuple[T, Iterable[int]]]) -> Slices[None]:
    for number, (name, partitions) in enumerate(topics, 1):
        known.setdefault(name, {}).update(dict.fromkeys(partitions))
        if number % SLICE_TOPICS == 0:
            yield


def _listed(merged: dict[str, _Partitions[str | bytes] | None]) -> Slices[list[tuple[str, Topics]]]:
    result: list[tuple[str, Topics]] = []
    for group_id, asked in merged.items():
        listed: list[tuple[str | bytes, Sequence[int]]] = []
        for name, numbers in (asked or {}).items():
            listed.append((name, list(numbers)))
            if len(listed) % SLICE_TOPICS == 0:
                yield
        result.append((group_id, None if asked is None else listed))
        if len(result) % SLICE_TOPICS == 0:
            yield
    return result
