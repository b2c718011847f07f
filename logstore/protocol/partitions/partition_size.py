"""How many bytes a partition's records take, counted once and kept as its log grows. Pure.

A `SizeLedger` aggregates runs of records in groups of up to a 32nd of all, so that a partition with
a million batches costs some kilobytes, and bytes below a log start can be left out: exactly where
it lies between two groups, else by its share of the group's offsets.
"""

from array import array
from bisect import bisect_right

from logstore.protocol.rules.retention import Part

STEPS = 32
GROUPS_MAX = 4 * STEPS
"""Neighbours that are smaller together than a step are merged: at most 2 * STEPS + 1 are left."""


class SizeLedger:
    """`at` is the offset to count on from."""

    __slots__ = ("_bytes", "_ends", "_start", "at")

    def __init__(self, start: int) -> None:
        self.at = self._start = start
        self._ends = array("q")
        self._bytes = array("q")

    def add(self, part: Part) -> None:
        """`part` begins at `at`, or holds it."""
        if part.end <= self.at:
            return
        self._ends.append(part.end)
        self._bytes.append(part.byte_count)
        self.at = part.end
        if len(self._ends) > GROUPS_MAX:
            self._merge_neighbours()

    def skip_to(self, end: int) -> None:
        """Nothing that counts here lies between `at` and `end`."""
        if self._ends:
            self.add(Part(end, 0, -1))
        else:
            self.at = self._start = max(self.at, end)

    def bytes_from(self, offset: int) -> int:
        """Bytes of the records from `offset` on, up to `at`. Those below are forgotten."""
        first = bisect_right(self._ends, offset)
        if first:
            self._start = self._ends[first - 1]
            del self._ends[:first], self._bytes[:first]
        total = sum(self._bytes)
        if self._ends and offset > self._start:
            span = self._ends[0] - self._start
            total -= self._bytes[0] * (offset - self._start) // span
        return total

    def _merge_neighbours(self) -> None:
        most = sum(self._bytes) // STEPS
        ends, sizes = array("q"), array("q")
        for end, byte_count in zip(self._ends, self._bytes, strict=True):
            if sizes and sizes[-1] + byte_count <= most:
                ends[-1] = end
                sizes[-1] += byte_count
            else:
                ends.append(end)
                sizes.append(byte_count)
        self._ends, self._bytes = ends, sizes
