"""Names slow requests in the log: which client, which request, how long; one line in a while.

Requests that wait on purpose are slow only beyond any usual wait: a Fetch waits for records. Those
of groups that wait for other members are never named.
"""

import logging
from collections.abc import Callable, Mapping

from broker.network.call import Call

SLOW_S = 2.0
LOGGED_EVERY_S = 10.0

_SLOW_S: Mapping[str, float] = {
    "Fetch": 35.0,
    "JoinGroup": float("inf"),
    "SyncGroup": float("inf"),
}

logger = logging.getLogger(__name__)


class SlowRequests:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._quiet_until_s = float("-inf")
        self._unlogged_count = 0

    def note(self, call: Call, took_s: float) -> None:
        """The answer of `call`, after more than `SLOW_S`, leaves now."""
        if took_s <= _SLOW_S.get(call.api.name, SLOW_S):
            return
        now_s = self._now_s()
        if now_s < self._quiet_until_s:
            self._unlogged_count += 1
            return
        logger.warning(
            "slow request: ms=%d principal=%s peer=%s %s others_since_the_last_line=%d",
            took_s * 1000,
            call.principal,
            call.connection.peer,
            call.describe(),
            self._unlogged_count,
        )
        self._quiet_until_s = now_s + LOGGED_EVERY_S
        self._unlogged_count = 0
