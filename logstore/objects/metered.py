"""Metrics of a store: calls, bytes, errors and dollars, by kind of operation.

`StoreCounts` may be shared by any number of wrapped stores and threads. Calls are counted when they
end, however they end, since S3 charges for refusals as well; a cancelled call counts as an error.
"""

import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from logstore.ports.objects import BlockingObjectStore, Buffer, ObjectInfo, ObjectStore
from logstore.prices import Requests, cost_of

Kind = Literal["create", "get", "get_range", "delete", "list"]

KINDS: tuple[Kind, ...] = ("create", "get", "get_range", "delete", "list")

_LIST_PAGE = 1000  # keys in one answer of S3, each a request


@dataclass(frozen=True, slots=True)
class KindCounts:
    """`bytes` are those of objects, sent or received; a list moves none that count."""

    calls: int = 0
    bytes: int = 0
    errors: int = 0


class StoreCounts:
    """Counters that only go up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Kind, KindCounts] = {kind: KindCounts() for kind in KINDS}

    def add(self, kind: Kind, *, calls: int, moved_bytes: int, errors: int) -> None:
        with self._lock:
            was = self._counts[kind]
            self._counts[kind] = KindCounts(
                was.calls + calls, was.bytes + moved_bytes, was.errors + errors
            )

    def snapshot(self) -> Mapping[Kind, KindCounts]:
        """The counts of one moment."""
        with self._lock:
            return dict(self._counts)

    def requests(self) -> Requests:
        counts = self.snapshot()
        return Requests(
            creates=counts["create"].calls,
            gets=counts["get"].calls + counts["get_range"].calls,
            lists=counts["list"].calls,
            deletes=counts["delete"].calls,
        )

    def dollars(self) -> float:
        """The price of these calls on S3 (`logstore.prices`)."""
        return cost_of(self.requests())


class MeteredStore:
    """An `ObjectStore` that counts calls of `store`."""

    def __init__(self, store: ObjectStore, counts: StoreCounts) -> None:
        self._store = store
        self._counts = counts

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        with _counting(self._counts, "create") as call:
            call.moved_bytes = _size_bytes(parts)
            await self._store.create(key, parts)

    async def get(self, key: str) -> bytes | memoryview:
        with _counting(self._counts, "get") as call:
            data = await self._store.get(key)
            call.moved_bytes = len(data)
        return data

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        with _counting(self._counts, "get_range") as call:
            data = await self._store.get_range(key, start, length)
            call.moved_bytes = len(data)
        return data

    async def delete(self, key: str) -> None:
        with _counting(self._counts, "delete"):
            await self._store.delete(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        with _counting(self._counts, "list") as call:
            async for info in self._store.list(prefix):
                call.listed += 1
                yield info

    async def close(self) -> None:
        await self._store.close()


class MeteredBlockingStore:
    """A `BlockingObjectStore` that counts calls of `store`."""

    def __init__(self, store: BlockingObjectStore, counts: StoreCounts) -> None:
        self._store = store
        self._counts = counts

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        with _counting(self._counts, "create") as call:
            call.moved_bytes = _size_bytes(parts)
            self._store.create(key, parts)

    def get(self, key: str) -> bytes:
        with _counting(self._counts, "get") as call:
            data = self._store.get(key)
            call.moved_bytes = len(data)
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with _counting(self._counts, "get_range") as call:
            data = self._store.get_range(key, start, length)
            call.moved_bytes = len(data)
        return data

    def delete(self, key: str) -> None:
        with _counting(self._counts, "delete"):
            self._store.delete(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        with _counting(self._counts, "list") as call:
            for info in self._store.list(prefix):
                call.listed += 1
                yield info

    def close(self) -> None:
        self._store.close()


@dataclass(slots=True)
class _MeteredCall:
    moved_bytes: int = 0
    listed: int = 0


@contextmanager
def _counting(counts: StoreCounts, kind: Kind) -> Iterator[_MeteredCall]:
    call = _MeteredCall()
    errors = 1
    try:
        yield call
        errors = 0
    except GeneratorExit:
        errors = 0  # the caller stopped listing
        raise
    finally:
        calls = max(1, -(-call.listed // _LIST_PAGE))
        counts.add(kind, calls=calls, moved_bytes=call.moved_bytes, errors=errors)


def _size_bytes(parts: Sequence[Buffer]) -> int:
    return sum(memoryview(part).nbytes for part in parts)
