"""The time of a chain: by the wall clock, but no faster or slower than time passes. Pure.

Producers expire by it. A wall clock set days ahead would make all of them forgotten at once, and
their repeats would be stored twice. One set days back would make the next chain, which is right
again, forget those that were at work just now. A chain never goes back.
"""

from typing import NamedTuple

CLOCK_SLACK_MS = 60_000
"""How far the wall clock may correct itself while a chain is written."""


class ChainTime(NamedTuple):
    """When the chain was opened, by its opening and by the monotonic clock of its writer."""

    opened_ms: int
    opened_s: float

    def now_ms(self, wall_ms: int, monotonic_s: float, last_ms: int) -> int:
        """When a segment is begun; `last_ms`: the one before."""
        due_ms = self.opened_ms + int((monotonic_s - self.opened_s) * 1000)
        lowest_ms, highest_ms = due_ms - CLOCK_SLACK_MS, due_ms + CLOCK_SLACK_MS
        return max(min(wall_ms, highest_ms), lowest_ms, last_ms)
