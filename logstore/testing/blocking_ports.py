"""Simulated stores and rows as blocking code sees them, in threads of `testing.blocking`."""

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from logstore.ports.objects import Buffer, ObjectInfo, ObjectStore
from logstore.ports.registry import Condition, Row, RowStore
from logstore.testing.blocking import wait_for

T = TypeVar("T")


class BlockingObjects:
    """A `BlockingObjectStore` on an `ObjectStore` of the virtual loop."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        wait_for(_of(self._store.create(key, parts)))

    def get(self, key: str) -> bytes:
        return bytes(wait_for(_of(self._store.get(key))))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return wait_for(_of(self._store.get_range(key, start, length)))

    def delete(self, key: str) -> None:
        wait_for(_of(self._store.delete(key)))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter(wait_for(self._listed(prefix)))

    async def _listed(self, prefix: str) -> Sequence[ObjectInfo]:
        return [info async for info in self._store.list(prefix)]

    def close(self) -> None:
        """The store is the simulation's to close."""


class BlockingRows:
    """A `BlockingRowStore` on a `RowStore` of the virtual loop."""

    def __init__(self, rows: RowStore) -> None:
        self._rows = rows

    def get(self, pk: str, sk: str) -> Row | None:
        return wait_for(_of(self._rows.get(pk, sk)))

    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return wait_for(_of(self._rows.query(pk, prefix, after=after, limit=limit)))

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        wait_for(_of(self._rows.put_if(pk, sk, row, conditions, write_id)))

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        wait_for(_of(self._rows.update_if(pk, sk, sets, conditions, write_id)))

    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str) -> None:
        wait_for(_of(self._rows.delete_if(pk, sk, conditions, write_id)))

    def close(self) -> None:
        """The rows are the simulation's to close."""


async def _of(call: Coroutine[Any, Any, T]) -> T:
    return await call
