"""Poll interval and read-ahead of a follower of a chain. Pure.

A GET of a seq that does not exist yet costs a request, and every wait is lag. So waits grow by half
with each miss, up to a second on an idle chain, and shrink by a tenth with each hit: about one GET
in five misses at a steady flow. The first segment after a long silence resets the wait at once. If
even the shortest wait finds more than one segment, several are read at a time, one more with each
poll that finds all of them.
"""

from dataclasses import dataclass

DELAY_MIN_S = 0.05
DELAY_BUSY_S = 0.1
DELAY_MAX_S = 1.0
WIDTH_MAX = 32
SHRINK = 0.9
GROW = 1.5


@dataclass(frozen=True, slots=True)
class PollPace:
    """Wait `delay_s`, then ask for `width` seqs."""

    delay_s: float = DELAY_BUSY_S
    width: int = 1

    def after(self, found: int) -> "PollPace":
        """The next look, after one that found `found` of `width`."""
        if not found:
            return PollPace(min(self.delay_s * GROW, DELAY_MAX_S))
        if found < self.width:
            return PollPace(self.delay_s, found)
        delay_s = max(DELAY_MIN_S, min(self.delay_s * SHRINK, DELAY_BUSY_S))
        is_behind = delay_s == DELAY_MIN_S
        return PollPace(delay_s, min(self.width + 1, WIDTH_MAX) if is_behind else self.width)
