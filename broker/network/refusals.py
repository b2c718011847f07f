"""Connections that are closed because of what their peers sent: counted, and named in the log.

Each costs its peer a handshake and a few bytes, and a line is a write to a disk: so a few lines a
second, and the next one says how many were left out.
"""

import logging
from collections.abc import Callable

LINES_PER_S = 5

logger = logging.getLogger(__name__)


class Refusals:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self.count = 0
        self._now_s = now_s
        self._second_ends_s = float("-inf")
        self._lines_left = 0
        self._unlogged_count = 0

    def note(self, peer: str, why: str) -> None:
        """The connection of `peer` is closed now."""
        self.count += 1
        now_s = self._now_s()
        if now_s >= self._second_ends_s:
            self._second_ends_s, self._lines_left = now_s + 1.0, LINES_PER_S
        if not self._lines_left:
            self._unlogged_count += 1
            return
        self._lines_left -= 1
        logger.warning(
            "connection closed: peer=%s %s others_since_the_last_line=%d",
            peer,
            why,
            self._unlogged_count,
        )
        self._unlogged_count = 0
