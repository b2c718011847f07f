"""A histogram as Prometheus has it: how many values fell below which bound, and their sum. Pure."""

from bisect import bisect_left

SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
    *(0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
"""Bounds of durations, unless a histogram has others."""


class Histogram:
    """`counts[n]` is of values of at most `bounds[n]` and above the bound before; the last one of
    everything larger. `total` is the sum of all values, in their unit."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def copy(self) -> "Histogram":
        one = Histogram(self.bounds)
        one.counts[:] = self.counts
        one.total = self.total
        return one
