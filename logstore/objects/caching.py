"""Keeps what was read from a store, for as long as it fits: exact ranges, and whole objects.

Objects never change, so nothing kept grows old. Readers come back for the same ranges (pages of a
checkpoint, headers with their index), so ranges are kept as they were asked for, not in blocks; a
whole object that is kept answers every range of it. Reads of the same range at the same time are
one read. Errors are never kept, absence neither.

Who finds kept bytes damaged calls `forget` before it reads again: the damage may be in the cache.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from logstore.errors import LogstoreError
from logstore.objects.keys import check_range
from logstore.objects.store import BlockingObjectStore, Buffer, ObjectInfo, ObjectStore

_OVERHEAD_BYTES = 250  # of one entry: the key, the range, the dictionary's share


@dataclass(frozen=True, slots=True)
class _Range:
    """`length` None: the whole object."""

    key: str
    start: int
    length: int | None


class RangeCache:
    """At most `bytes_max` of the ranges read last. For any number of threads and stores alike."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Range, bytes] = OrderedDict()
        self.size_bytes = 0
        self.hits = 0
        self.misses = 0

    def find(self, wanted: _Range) -> bytes | None:
        with self._lock:
            found = self._find(wanted)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
            return found

    def keep(self, read: _Range, data: bytes) -> None:
        cost_bytes = len(data) + _OVERHEAD_BYTES
        if cost_bytes > self._bytes_max // 4:
            return  # one object must not push out all the others
        with self._lock:
            self._drop(read)
            self._kept[read] = data
            self.size_bytes += cost_bytes
            while self.size_bytes > self._bytes_max:
                self._drop(next(iter(self._kept)))

    def forget(self, key: str) -> None:
        """Drop all that is kept of one object."""
        with self._lock:
            for read in [read for read in self._kept if read.key == key]:
                self._drop(read)

    def _find(self, wanted: _Range) -> bytes | None:
        if (data := self._kept.get(wanted)) is not None:
            self._kept.move_to_end(wanted)
            return data
        whole = _Range(wanted.key, 0, None)
        if wanted.length is None or (data := self._kept.get(whole)) is None:
            return None
        self._kept.move_to_end(whole)
        return data[wanted.start : wanted.start + wanted.length]

    def _drop(self, read: _Range) -> None:
        data = self._kept.pop(read, None)
        if data is not None:
            self.size_bytes -= len(data) + _OVERHEAD_BYTES


class CachingStore:
    """An `ObjectStore` that reads `store` through `cache`. For one event loop."""

    def __init__(self, store: ObjectStore, cache: RangeCache) -> None:
        self._store = store
        self._cache = cache
        self._flights: dict[_Range, asyncio.Future[bytes | LogstoreError]] = {}

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._store.create(key, parts)

    async def get(self, key: str) -> bytes:
        return await self._read(_Range(key, 0, None), lambda: self._store.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        return await self._read(
            _Range(key, start, length), lambda: self._store.get_range(key, start, length)
        )

    async def delete(self, key: str) -> None:
        await self._store.delete(key)
        self._cache.forget(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async for info in self._store.list(prefix):
            yield info

    async def close(self) -> None:
        await self._store.close()

    async def _read(self, wanted: _Range, read: Callable[[], Awaitable[bytes]]) -> bytes:
        while True:
            if (kept := self._cache.find(wanted)) is not None:
                return kept
            flight = self._flights.get(wanted)
            if flight is None:
                return await self._fly(wanted, read)
            # Waiting leaves the flight alone; one that was given up ends here without an outcome.
            await asyncio.wait({flight})
            if not flight.cancelled():
                outcome = flight.result()
                if isinstance(outcome, LogstoreError):
                    raise outcome
                return outcome

    async def _fly(self, wanted: _Range, read: Callable[[], Awaitable[bytes]]) -> bytes:
        flight = self._flights[wanted] = asyncio.get_running_loop().create_future()
        try:
            data = await read()
            self._cache.keep(wanted, data)
            flight.set_result(data)
        except LogstoreError as error:
            flight.set_result(error)
            raise
        finally:
            del self._flights[wanted]
            flight.cancel()  # nothing, if it has its outcome
        return data


class CachingBlockingStore:
    """A `BlockingObjectStore` that reads `store` through `cache`, for any number of threads."""

    def __init__(self, store: BlockingObjectStore, cache: RangeCache) -> None:
        self._store = store
        self._cache = cache
        self._lock = threading.Lock()
        self._flights: dict[_Range, Future[bytes | LogstoreError]] = {}

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self._store.create(key, parts)

    def get(self, key: str) -> bytes:
        return self._read(_Range(key, 0, None), lambda: self._store.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        return self._read(
            _Range(key, start, length), lambda: self._store.get_range(key, start, length)
        )

    def delete(self, key: str) -> None:
        self._store.delete(key)
        self._cache.forget(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._store.list(prefix)

    def close(self) -> None:
        self._store.close()

    def _read(self, wanted: _Range, read: Callable[[], bytes]) -> bytes:
        if (kept := self._cache.find(wanted)) is not None:
            return kept
        with self._lock:
            flight = self._flights.get(wanted)
            mine = flight is None
            if flight is None:
                flight = self._flights[wanted] = Future()
        if mine:
            return self._fly(wanted, flight, read)
        outcome = flight.result()
        if isinstance(outcome, LogstoreError):
            raise outcome
        return outcome

    def _fly(
        self, wanted: _Range, flight: "Future[bytes | LogstoreError]", read: Callable[[], bytes]
    ) -> bytes:
        try:
            data = read()
            self._cache.keep(wanted, data)
            flight.set_result(data)
        except LogstoreError as error:
            flight.set_result(error)
            raise
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._flights[wanted]
        return data
