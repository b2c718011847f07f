"""When to send a request a second time: after the p99 of recent ones alike, and seldom. Pure.

S3 answers most requests in tens of milliseconds and a few in seconds, and the second of two equal
requests meets another machine. So a request that takes longer than the p99 of recent ones of its
kind and size is sent again. Bounds, so that a store in trouble does not get more trouble:

    at most 5 % of requests, in bursts of at most 10: each request adds 1/20 to a purse
    none within 30 s after the store asked for fewer requests
    none before enough is known: 50 requests of that kind and size
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["create", "read"]

_SIZES = (64 << 10, 1 << 20, 8 << 20)  # bounds of the size classes; above is the last


@dataclass(frozen=True, slots=True, kw_only=True)
class HedgeSettings:
    """`share` trades cost for the tail: each hedge is one more request, and 5 % is 5 % more."""

    share: float = 0.05
    burst: int = 10
    quiet_s: float = 30.0
    samples_min: int = 50
    samples_max: int = 500
    delay_s_min: float = 0.02


class HedgePolicy:
    """Counts requests of one store, and says when one may be sent again."""

    def __init__(self, settings: HedgeSettings) -> None:
        assert 0 <= settings.share <= 1
        self._settings = settings
        self._classes: dict[tuple[Kind, int], _Recent] = {}
        self._purse = {"create": 0.0, "read": 0.0}
        self._quiet_until_s = float("-inf")
        self.hedges = {"create": 0, "read": 0}

    def begin(self, kind: Kind, size_bytes: int, now_s: float) -> float | None:
        """A request begins: how long to wait for it before `take` is asked; None for ever."""
        self._purse[kind] = min(
            float(self._settings.burst), self._purse[kind] + self._settings.share
        )
        recent = self._classes.get((kind, _size_class(size_bytes)))
        if now_s < self._quiet_until_s or recent is None:
            return None
        if len(recent.took_s) < self._settings.samples_min:
            return None
        return max(self._settings.delay_s_min, recent.p99_s())

    def take(self, kind: Kind, now_s: float) -> bool:
        """Whether to send it again now; counts it if so."""
        if self._purse[kind] < 1 or now_s < self._quiet_until_s:
            return False
        self._purse[kind] -= 1
        self.hedges[kind] += 1
        return True

    def end(self, kind: Kind, size_bytes: int, took_s: float) -> None:
        """The first of two has ended, or was given up after `took_s`."""
        size_class = (kind, _size_class(size_bytes))
        recent = self._classes.get(size_class)
        if recent is None:
            recent = self._classes[size_class] = _Recent(deque(maxlen=self._settings.samples_max))
        recent.add(took_s)

    def throttle(self, now_s: float) -> None:
        """The store asked for fewer requests."""
        self._quiet_until_s = now_s + self._settings.quiet_s


@dataclass(slots=True)
class _Recent:
    """The last durations of one class; their p99 is recomputed for every tenth."""

    took_s: deque[float]
    _p99_s: float | None = None
    _since: int = field(default=0)

    def add(self, took_s: float) -> None:
        self.took_s.append(took_s)
        self._since += 1
        if self._since >= 10:
            self._p99_s = None
            self._since = 0

    def p99_s(self) -> float:
        if self._p99_s is None:
            ordered = sorted(self.took_s)
            self._p99_s = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return self._p99_s


def _size_class(size_bytes: int) -> int:
    return bisect_left(_SIZES, size_bytes)
