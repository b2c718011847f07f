"""Long work cut into slices of a few milliseconds, so that an event loop can do it between others.

A generator yields after each slice and returns the result. What it works on must not change between
slices unless its docstring allows that. `logstore.protocol.steps.sliced` makes steps of one. Pure.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

Slices = Generator[None, None, T]


def parts_of(items: Sequence[T], count_max: int) -> Iterator[Sequence[T]]:
    """`items` in parts of at most `count_max`, in order."""
    for start in range(0, len(items), count_max):
        yield items[start : start + count_max]


def summed(numbers: Iterable[int], count: int = 2_000) -> Slices[int]:
    total, left = 0, iter(numbers)
    while some := list(islice(left, count)):
        total += sum(some)
        yield
    return total


def finish(slices: Slices[T]) -> T:
    """All of it, at once."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result
