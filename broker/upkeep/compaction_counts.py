"""Counts of the compaction beside a broker, and when it is restarted and reported."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from logstore.retry import pause_s

RESTART_FIRST_S, RESTART_MAX_S = 1.0, 60.0
SAID_MAX = 100
"""Different lines that are remembered."""


@dataclass(slots=True)
class CompactionCounts:
    """Of one broker process. `last_good_ms`: Unix time of the last run without errors, 0: none."""

    is_running: bool = False
    good_runs: int = 0
    failed_runs: int = 0
    records: int = 0
    bytes_in: int = 0
    deaths: int = 0
    last_good_ms: int = 0
    cleaned_bytes: int = 0
    dropped_rows: int = 0
    uncleanable: int = 0
    """Partitions that the last run could not clean."""
    clean_delay_s: int = 0
    """Longest time by which a record was overdue for cleaning when the last run looked."""

    def ended(self) -> None:
        """The child runs no more: what its last run found is no longer known here."""
        self.is_running = False
        self.uncleanable = self.clean_delay_s = 0

    def add_run(self, figures: Any, now_ms: int) -> bool:
        """Take what `logstore compact --json` says of a run; whether no topic failed in it.

        A line that is none of these counts nothing.
        """
        if not isinstance(figures, Mapping):
            return False
        rows, bytes_in = figures.get("rows", 0), figures.get("bytes_in", 0)
        if not (isinstance(rows, int) and isinstance(bytes_in, int)):
            return False
        self.records += rows
        self.bytes_in += bytes_in
        self.cleaned_bytes += _count(figures, "cleaned_bytes")
        self.dropped_rows += _count(figures, "dropped_rows")
        self.uncleanable = _count(figures, "uncleanable_partitions")
        self.clean_delay_s = _count(figures, "max_compaction_delay_secs")
        if figures.get("errors"):
            self.failed_runs += 1
            return False
        self.good_runs += 1
        self.last_good_ms = now_ms
        return True


def _count(figures: Mapping[str, Any], name: str) -> int:
    """0 also where an older version does not say it."""
    value = figures.get(name, 0)
    return value if isinstance(value, int) else 0


class Restarts:
    """When a child that died starts again, and what is said. A good run ends all trouble."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._deaths = 0
        self._said: set[str] = set()

    def after_death(self) -> tuple[float, bool]:
        """Seconds until the next start, and whether the death is said: the first of a series is."""
        self._deaths += 1
        wait_s = pause_s(self._deaths, self._rng, RESTART_FIRST_S, RESTART_MAX_S)
        return wait_s, self._deaths == 1

    def had_a_good_run(self) -> None:
        self._deaths = 0
        self._said.clear()

    def is_news(self, line: str) -> bool:
        """Whether a line of the child differs from those said before by more than numbers."""
        trouble = re.sub(r"\d+", "#", line)
        if not line or trouble in self._said:
            return False
        if len(self._said) >= SAID_MAX:
            self._said.clear()
        self._said.add(trouble)
        return True
