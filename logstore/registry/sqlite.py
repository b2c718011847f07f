"""The registry in one SQLite file: asynchronous for brokers, blocking for Spark and tools.

Both faces stand on one owner thread (`registry.sqlite_owner`), which answers after the commit is
durable; why: docs/decisions/0002-sqlite-one-owner-thread.md. Any number of processes may open the
same file, on one machine; after a fork, the child opens it for itself.
"""

import asyncio
from collections.abc import Sequence
from concurrent import futures
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from logstore.errors import LogstoreError, OutcomeUnknown, Retryable
from logstore.ports.registry import Condition, Row
from logstore.registry.sqlite_file import Mode
from logstore.registry.sqlite_owner import SqliteOwner

_Answer = TypeVar("_Answer")


class SqliteRows:
    """A `RowStore` on the file at `path`. Nothing is opened before the first call.

    `mode`: "create" makes the file if there is none (its folder must exist), "write" refuses to,
    "read" changes nothing. A call that takes longer than `timeout_s` (another process sits on the
    file, the disk hangs) raises `Retryable` if it had not begun, else `OutcomeUnknown`.
    """

    def __init__(self, path: Path | str, mode: Mode = "create", *, timeout_s: float = 10.0) -> None:
        self._owner = SqliteOwner(Path(path), mode)
        self._timeout_s = timeout_s

    def blocking(self) -> "BlockingSqliteRows":
        """Another face of the same rows. Closing one closes both."""
        return BlockingSqliteRows(self._owner, self._timeout_s)

    async def get(self, pk: str, sk: str) -> Row | None:
        return await self._answer(self._owner.get(pk, sk))

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return await self._answer(self._owner.query(pk, prefix, after, limit))

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._answer(self._owner.put_if(pk, sk, row, conditions, write_id))

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._answer(self._owner.update_if(pk, sk, sets, conditions, write_id))

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await self._answer(self._owner.delete_if(pk, sk, conditions))

    async def close(self) -> None:
        """Waits for the calls under way, but not longer than for any call: a disk may hang."""
        await asyncio.wait([asyncio.wrap_future(self._owner.close())], timeout=self._timeout_s)

    async def _answer(self, future: Future[_Answer]) -> _Answer:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise _overdue(future, self._timeout_s) from None


class BlockingSqliteRows:
    """A `BlockingRowStore`: what `SqliteRows.blocking` gives."""

    def __init__(self, owner: SqliteOwner, timeout_s: float) -> None:
        self._owner = owner
        self._timeout_s = timeout_s

    def get(self, pk: str, sk: str) -> Row | None:
        return self._answer(self._owner.get(pk, sk))

    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return self._answer(self._owner.query(pk, prefix, after, limit))

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._answer(self._owner.put_if(pk, sk, row, conditions, write_id))

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._answer(self._owner.update_if(pk, sk, sets, conditions, write_id))

    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str) -> None:
        self._answer(self._owner.delete_if(pk, sk, conditions))

    def close(self) -> None:
        futures.wait([self._owner.close()], self._timeout_s)

    def _answer(self, future: Future[_Answer]) -> _Answer:
        try:
            return future.result(self._timeout_s)
        except TimeoutError:
            raise _overdue(future, self._timeout_s) from None


def _overdue(future: Future[_Answer], timeout_s: float) -> LogstoreError:
    if future.cancel():
        return Retryable(f"the registry is busy or its disk hangs timeout_s={timeout_s}")
    return OutcomeUnknown(f"the registry has not answered timeout_s={timeout_s}")
