"""Reads of a registry without a broker: every row of a query, repeated when they fail."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from logstore.ports.clock import SystemClock, blocking_sleep_s
from logstore.ports.registry import BlockingRowStore, Row
from logstore.registry.retrying import CALL_DELAYS
from logstore.retry import RetryDelays, retry

PAGE_ROWS = 1000

_Answer = TypeVar("_Answer")


class RetryingReads:
    """`get` and `query` on `rows`. `monotonic_s` and `sleep_s` are the caller's time."""

    def __init__(
        self,
        rows: BlockingRowStore,
        random: Random,
        *,
        delays: RetryDelays = CALL_DELAYS,
        monotonic_s: Callable[[], float] | None = None,
        sleep_s: Callable[[float], None] = blocking_sleep_s,
    ) -> None:
        self._rows = rows
        self._random = random
        self._delays = delays
        self._monotonic_s = monotonic_s or SystemClock().monotonic_s
        self._sleep_s = sleep_s

    def get(self, pk: str, sk: str) -> Row | None:
        return self._read(lambda: self._rows.get(pk, sk))

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        """Every row of `pk` whose sk starts with `prefix`: read page by page, not at one moment."""
        rows: list[tuple[str, Row]] = []
        while True:
            page = self._page(pk, prefix, rows[-1][0] if rows else None)
            rows += page
            if len(page) < PAGE_ROWS:
                return rows

    def _page(self, pk: str, prefix: str, after: str | None) -> Sequence[tuple[str, Row]]:
        return self._read(lambda: self._rows.query(pk, prefix, after=after, limit=PAGE_ROWS))

    def _read(self, attempt: Callable[[], _Answer]) -> _Answer:
        return retry(
            attempt,
            self._delays,
            self._random,
            sleep_s=self._sleep_s,
            monotonic_s=self._monotonic_s,
        )
