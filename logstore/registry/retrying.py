"""A registry made of a row store: write ids, retries, and the handling of lost answers.

One call is up to several attempts, all with one fresh write id. After an attempt whose answer was
lost, the next one finds out:

    put_if, update_if   condition holds            written (again: the same values, the same id)
                        row bears my write id      written by the lost attempt: success
                        row bears another id       ConditionFailed: the caller decides from the row
    delete_if           no row                     removed by the lost attempt: success
                        a row                      removed now, or ConditionFailed

When the deadline passes after a lost answer, the outcome stays unknown, whatever came later.
Not covered: an attempt given up as lost that lands after the call has ended. It changes nothing
unless its conditions hold then, so callers put an epoch or a version in their conditions.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random
from typing import TypeVar

from logstore.errors import (
    ConditionFailed,
    Denied,
    LogstoreError,
    NoRoom,
    OutcomeUnknown,
    Retryable,
    Unavailable,
)
from logstore.ports.clock import Clock
from logstore.ports.registry import WRITE_ID, Condition, Row, RowStore
from logstore.retry import RetryDelays

CALL_DELAYS = RetryDelays(deadline_s=15.0)
NO_ROOM_S = 0.5
"""On a full disk a write is tried again for so long: a person must act, so an answer is due."""

_PAGE_ROWS = 1000

_Answer = TypeVar("_Answer")


class RetryingRegistry:
    """A `Registry` on `rows`. `ids` gives a string never given before, in any process."""

    def __init__(
        self,
        rows: RowStore,
        ids: Callable[[], str],
        clock: Clock,
        random: Random,
        delays: RetryDelays = CALL_DELAYS,
    ) -> None:
        self._rows = rows
        self._ids = ids
        self._clock = clock
        self._random = random
        self._delays = delays

    async def get(self, pk: str, sk: str) -> Row | None:
        return await self._read(lambda: self._rows.get(pk, sk))

    async def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        """Every row of `pk` whose sk starts with `prefix`: read page by page, not at one moment."""
        rows: list[tuple[str, Row]] = []
        while True:
            after = rows[-1][0] if rows else None
            page = await self._read_page(pk, prefix, after)
            rows += page
            if len(page) < _PAGE_ROWS:
                return rows

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        write_id = self._ids()
        await self._write(
            lambda: self._rows.put_if(pk, sk, row, conditions, write_id),
            lambda current, _: _bears(current, write_id),
        )

    async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        write_id = self._ids()
        await self._write(
            lambda: self._rows.update_if(pk, sk, sets, conditions, write_id),
            lambda current, _: _bears(current, write_id),
        )

    async def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None:
        write_id = self._ids()
        await self._write(
            lambda: self._rows.delete_if(pk, sk, conditions, write_id),
            lambda current, lost: lost and current is None,
        )

    async def close(self) -> None:
        await self._rows.close()

    async def _read_page(
        self, pk: str, prefix: str, after: str | None
    ) -> Sequence[tuple[str, Row]]:
        return await self._read(lambda: self._rows.query(pk, prefix, after=after, limit=_PAGE_ROWS))

    async def _read(self, attempt: Callable[[], Awaitable[_Answer]]) -> _Answer:
        started_s = self._clock.monotonic_s()
        for failures in count(1):
            try:
                return await attempt()
            except Unavailable:
                if not await self._wait(started_s, failures):
                    raise
        raise AssertionError("unreachable")

    async def _write(
        self,
        attempt: Callable[[], Awaitable[None]],
        is_done: Callable[[Row | None, bool], bool],
    ) -> None:
        started_s = self._clock.monotonic_s()
        lost: OutcomeUnknown | None = None
        last: LogstoreError | None = None
        for failures in count(1):
            try:
                return await attempt()
            except ConditionFailed as failed:
                if is_done(failed.current, lost is not None):
                    return None
                raise
            except OutcomeUnknown as error:
                lost = lost or error
                last = error
            except (Retryable, Denied) as error:
                last = error
                if isinstance(error, NoRoom) and self._has_waited(started_s):
                    break
            if not await self._wait(started_s, failures):
                break
        assert last is not None
        try:
            raise lost or last
        finally:
            del lost, last  # an error bears this frame

    def _has_waited(self, started_s: float) -> bool:
        return self._clock.monotonic_s() - started_s >= NO_ROOM_S

    async def _wait(self, started_s: float, failures: int) -> bool:
        """Waits before the next attempt, or answers that there is no time for one."""
        elapsed_s = self._clock.monotonic_s() - started_s
        wait_s = self._delays.wait_s(failures, elapsed_s, self._random)
        if wait_s is None:
            return False
        await self._clock.sleep_s(wait_s)
        return True


def _bears(current: Row | None, write_id: str) -> bool:
    return current is not None and current.get(WRITE_ID) == write_id
