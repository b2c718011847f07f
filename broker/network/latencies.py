"""How long requests of each API took, and how many there were: one histogram per API.

From the read that a request came with to the write that its answer leaves with. Requests of one
read that leave in one write are counted at once: a pipelined request costs next to nothing.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logstore.wire.framing.apis import Api

BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
    *(0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)


class Histogram:
    """`counts[n]` is of what took at most `BOUNDS_S[n]` and longer than the bound before; the last
    one of everything longer."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += count
        self.total_s += seconds * count

    def copy(self) -> "Histogram":
        one = Histogram()
        one.counts[:] = self.counts
        one.total_s = self.total_s
        return one


class Latencies:
    """As many histograms as there are APIs, at most."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.by_api: dict[Api, Histogram] = {}
        self._now_s = now_s

    def answered(self, api: "Api", began_s: float, count: int) -> None:
        """The answers of `count` requests that came at `began_s` leave now."""
        histogram = self.by_api.get(api)
        if histogram is None:
            histogram = self.by_api[api] = Histogram()
        took_s = self._now_s() - began_s
        histogram.counts[bisect_left(BOUNDS_S, took_s)] += count  # `add` as a call costs twice
        histogram.total_s += took_s * count
