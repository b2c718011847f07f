"""Steps of requests that held the event loop: which API, which client, for how long.

The loop that serves clients renews the broker's lease too, so no step should take longer than
`HOLD_S`. Each step of a request is measured: the decoding and handling of a frame, each slice of a
long one (`turns`). `logstore_loop_lag_seconds` shows holds by everything else.
"""

import logging
from collections import Counter
from collections.abc import Callable

from broker.network.call import Call

HOLD_S = 0.02
LOGGED_EVERY_S = 10.0
LONGEST_FOR_S = 60.0

logger = logging.getLogger(__name__)


class LoopHolds:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self.bound_s = HOLD_S
        self.by_api: Counter[str] = Counter()
        """Steps that took longer than the bound."""
        self._now_s = now_s
        self._longest: dict[str, float] = {}
        self._longest_before: dict[str, float] = {}
        self._longest_until_s = float("-inf")
        self._quiet_until_s = float("-inf")
        self._unlogged_count = 0

    def note(self, call: Call, took_s: float) -> None:
        """A step of `call` took so long; at most one line is logged in `LOGGED_EVERY_S`."""
        if took_s <= self.bound_s:
            return
        name, now_s = call.api.name, self._now_s()
        self.by_api[name] += 1
        self._turn_over(now_s)
        self._longest[name] = max(self._longest.get(name, 0.0), took_s)
        if now_s < self._quiet_until_s:
            self._unlogged_count += 1
            return
        logger.warning(
            "event loop held: ms=%d peer=%s %s others_since_the_last_line=%d",
            took_s * 1000,
            call.connection.peer,
            call.describe(),
            self._unlogged_count,
        )
        self._quiet_until_s = now_s + LOGGED_EVERY_S
        self._unlogged_count = 0

    def longest_s(self, api: str) -> float:
        """The longest step of the last one or two minutes; 0: none was above the bound."""
        self._turn_over(self._now_s())
        return max(self._longest.get(api, 0.0), self._longest_before.get(api, 0.0))

    def _turn_over(self, now_s: float) -> None:
        """Two spans of a minute, so that a scrape every minute misses none."""
        if now_s < self._longest_until_s:
            return
        is_old = now_s >= self._longest_until_s + LONGEST_FOR_S
        self._longest_before = {} if is_old else self._longest
        self._longest = {}
        self._longest_until_s = now_s + LONGEST_FOR_S
