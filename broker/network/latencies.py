"""How long requests of each API took, and how many there were: one histogram per API.

From the read that a request came with to the write that its answer leaves with. Requests of one
read that leave in one write are counted at once: a pipelined request costs next to nothing.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

from logstore.histogram import SECONDS, Histogram

if TYPE_CHECKING:
    from logstore.wire.framing.apis import Api


class Latencies:
    """As many histograms as there are APIs, at most."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.by_api: dict[Api, Histogram] = {}
        self._now_s = now_s

    def answered(self, api: "Api", began_s: float, count: int) -> float:
        """The answers of `count` requests that came at `began_s` leave now: seconds they took."""
        histogram = self.by_api.get(api)
        if histogram is None:
            histogram = self.by_api[api] = Histogram()
        took_s = self._now_s() - began_s
        histogram.counts[bisect_left(SECONDS, took_s)] += count  # `add` as a call costs twice
        histogram.total += took_s * count
        return took_s
