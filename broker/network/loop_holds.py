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

logger = logging.getLogger(__name__)


class LoopHolds:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self.bound_s = HOLD_S
        self.by_api: Counter[str] = Counter()
        """Steps that took longer than the bound."""
        self._now_s = now_s
        self._quiet_until_s = float("-inf")
        self._unlogged_count = 0

    def note(self, call: Call, took_s: float) -> None:
        """A step of `call` took so long; at most one line is logged in `LOGGED_EVERY_S`."""
        if took_s <= self.bound_s:
            return
        self.by_api[call.api.name] += 1
        now_s = self._now_s()
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
