"""How much a client did lately, and how long it must wait to be within its quota. Pure.

    WindowedRate   bytes, time, connections: Kafka's `Rate`, of 11 windows of a second by default
    TokenBucket    changes of the cluster: Kafka's `TokenBucket`, which allows bursts

A rate is the total of the windows that are younger than 11 s, divided by the time W since the first
of them began, which counts as 10 s and a part at least. So a client that comes back may do the work
of ten seconds at once, and then waits until the rate would be the limit (Kafka's
`QuotaUtils.throttleTime`, `(rate - limit) / limit * W`):

    total / limit - W

A bucket holds up to 11 s of the limit and fills at its rate. It goes below 0, which is the wait.
"""

from typing import NamedTuple


class Windows(NamedTuple):
    """Kafka's `quota.window.num` and `quota.window.size.seconds`, or those of the controller."""

    number: int = 11
    size_s: float = 1.0

    @property
    def span_s(self) -> float:
        """Time that a rate is taken over; a bucket holds as much of its limit."""
        return self.number * self.size_s

    @property
    def burst_s(self) -> float:
        """Seconds of the limit that an idle client may use at once: all windows but one."""
        return max(self.number - 1, 1) * self.size_s


BY_DEFAULT = Windows()
THROTTLE_S_MAX = (2**31 - 1) / 1000
"""The longest that an answer can say: 24 days."""


class WindowedRate:
    __slots__ = ("_kept", "_windows")

    def __init__(self, kept: Windows = BY_DEFAULT) -> None:
        self._kept = kept
        self._windows: list[list[float]] = []
        """Begin and total of each, the oldest first."""

    def add(self, amount: float, now_s: float) -> None:
        self._forget(now_s)
        windows = self._windows
        if windows and now_s < windows[-1][0] + self._kept.size_s:
            windows[-1][1] += amount
        else:
            windows.append([now_s, amount])

    def total(self, now_s: float) -> float:
        """Of all windows."""
        self._forget(now_s)
        return sum([amount for _, amount in self._windows])

    def throttle_s(self, limit: float, now_s: float) -> float:
        """How long to wait until the rate is `limit`; 0: it is not above it."""
        total = self.total(now_s)
        if total <= 0:
            return 0.0
        wait_s = total / limit - self._span_s(now_s) if limit > 0 else THROTTLE_S_MAX
        return min(max(wait_s, 0.0), THROTTLE_S_MAX)

    def is_idle(self, now_s: float) -> bool:
        """Whether it is as good as a new one."""
        self._forget(now_s)
        return not self._windows

    def _span_s(self, now_s: float) -> float:
        age_s = now_s - self._windows[0][0]
        count, size_s = self._kept
        missing = max(0, count - 1 - int(age_s / size_s))
        return age_s + missing * size_s

    def _forget(self, now_s: float) -> None:
        oldest_s = now_s - self._kept.span_s
        while self._windows and self._windows[0][0] <= oldest_s:
            del self._windows[0]


class TokenBucket:
    __slots__ = ("_filled_s", "_kept", "_limit", "_tokens")

    def __init__(self, limit: float, now_s: float, kept: Windows = BY_DEFAULT) -> None:
        self._limit = limit
        self._kept = kept
        self._tokens = self._most
        self._filled_s = now_s

    @property
    def _most(self) -> float:
        return self._limit * self._kept.span_s

    def take(self, amount: float, limit: float, now_s: float) -> None:
        """Take tokens, also those that are not there; from now on `limit` fill in a second."""
        self._fill(limit, now_s)
        self._tokens -= amount

    def throttle_s(self, limit: float, now_s: float) -> float:
        """How long to wait until none is missing."""
        self._fill(limit, now_s)
        if self._tokens >= 0:
            return 0.0
        return min(-self._tokens / limit, THROTTLE_S_MAX) if limit > 0 else THROTTLE_S_MAX

    def is_idle(self, now_s: float) -> bool:
        """Whether it is as good as a new one."""
        self._fill(self._limit, now_s)
        return self._tokens >= self._most

    def _fill(self, limit: float, now_s: float) -> None:
        self._tokens += self._limit * (now_s - self._filled_s)
        self._limit, self._filled_s = limit, now_s
        self._tokens = min(self._tokens, self._most)
