"""Reads of a registry without a broker: every row of a query, repeated when they fail."""

from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import TypeVar

from logstore.errors import OutcomeUnknown, Retryable
from logstore.ports.clock import SystemClock, blocking_sleep_s
from logstore.ports.registry import BlockingRowStore, Row
from logstore.registry.retrying import Backoff

PAGE_ROWS = 1000

_Answer = TypeVar("_Answer")


class PatientReads:
    """`get` and `query` on `rows`. `monotonic_s` and `sleep_s` are the caller's time."""

    def __init__(
        self,
        rows: BlockingRowStore,
        random: Random,
        *,
        backoff: Backoff | None = None,
        monotonic_s: Callable[[], float] | None = None,
        sleep_s: Callable[[float], None] = blocking_sleep_s,
    ) -> None:
        self._rows = rows
        self._random = random
        self._backoff = backoff or Backoff()
        self._monotonic_s = monotonic_s or SystemClock().monotonic_s
        self._sleep_s = sleep_s

    def get(self, pk: str, sk: str) -> Row | None:
        return self._read(lambda: self._rows.get(pk, sk))

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        """Every row of `pk` whose sk starts with `prefix`: read page by page, not at one moment."""
        found: list[tuple[str, Row]] = []
        while True:
            page = self._page(pk, prefix, found[-1][0] if found else None)
            found += page
            if len(page) < PAGE_ROWS:
                return found

    def _page(self, pk: str, prefix: str, after: str | None) -> Sequence[tuple[str, Row]]:
        return self._read(lambda: self._rows.query(pk, prefix, after=after, limit=PAGE_ROWS))

    def _read(self, attempt: Callable[[], _Answer]) -> _Answer:
        started_s = self._monotonic_s()
        for failures in count(1):
            try:
                return attempt()
            except (Retryable, OutcomeUnknown):
                wait_s = self._backoff.wait_s(failures, self._random)
                if self._monotonic_s() + wait_s > started_s + self._backoff.deadline_s:
                    raise
                self._sleep_s(wait_s)
        raise AssertionError("unreachable")
