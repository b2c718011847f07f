"""Dead offsets of a rewrite, handed out in the order of its rows, decoded as they are needed.

A file of some megabytes may have millions of dead rows. Decoded, sorted and made one they would
take several times 8 bytes each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class DeadOffsets:
    """Series of rising offsets, whose ranges may overlap. Of each that has begun one array is in
    memory; `series` begin each, and are called twice.
    """

    def __init__(self, series: Iterable[Callable[[], Iterator[pa.Array]]]) -> None:
        self._series = [_Series(begin) for begin in series]
        self.count = 0
        """Of all that were handed out."""

    def up_to(self, last: int) -> list[pa.Array]:
        """Those up to `last` that were not handed out before."""
        found = [offsets for one in self._series for offsets in one.up_to(last)]
        self._series = [one for one in self._series if not one.is_over]
        self.count += sum(map(len, found))
        return found

    def all_count(self) -> int:
        """How many there are, handed out or not; none is left to hand out."""
        for one in self._series:
            self.count += one.rest()
        self._series = []
        return self.count


class _Series:
    """Looked into once, for its first offset: most series end before the next one begins."""

    def __init__(self, begin: Callable[[], Iterator[pa.Array]]) -> None:
        first = next(begin(), None)
        self._begin = begin
        self._more: Iterator[pa.Array] | None = None
        self._offsets: pa.Array | None = None
        self._next = None if first is None else first[0].as_py()

    @property
    def is_over(self) -> bool:
        return self._next is None

    def up_to(self, last: int) -> Iterator[pa.Array]:
        while self._next is not None and self._next <= last:
            if self._more is None:
                self._more = self._begin()
            offsets = next(self._more) if self._offsets is None else self._offsets
            values = memoryview(offsets.buffers()[1]).cast("q")[offsets.offset :]
            here = bisect_right(values, last, hi=len(offsets))
            yield offsets.slice(0, here)
            self._offsets = offsets.slice(here) if here < len(offsets) else next(self._more, None)
            self._next = None if self._offsets is None else self._offsets[0].as_py()

    def rest(self) -> int:
        """How many were not handed out."""
        if self._next is None:
            return 0
        more = self._begin() if self._more is None else self._more
        return (0 if self._offsets is None else len(self._offsets)) + sum(map(len, more))
