"""Measures requests to a store: one wrapper, directly around the store, so each attempt counts.

The time of a list is that to its first page: the rest passes while its reader works.
"""

from collections.abc import AsyncIterator, Sequence

from logstore.ports.clock import Clock
from logstore.ports.objects import Buffer, ObjectInfo, ObjectStore
from logstore.request_times import RequestTimes


class TimedStore:
    """An `ObjectStore` that measures calls of `store`."""

    def __init__(self, store: ObjectStore, times: RequestTimes, clock: Clock) -> None:
        self._store = store
        self._times = times
        self._clock = clock

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        with self._times.measure("create", self._clock.monotonic_s):
            await self._store.create(key, parts)

    async def get(self, key: str) -> bytes | memoryview:
        with self._times.measure("get", self._clock.monotonic_s):
            return await self._store.get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._times.measure("get_range", self._clock.monotonic_s):
            return await self._store.get_range(key, start, length)

    async def delete(self, key: str) -> None:
        with self._times.measure("delete", self._clock.monotonic_s):
            await self._store.delete(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        infos = aiter(self._store.list(prefix))
        with self._times.measure("list", self._clock.monotonic_s):
            first = await anext(infos, None)
        if first is not None:
            yield first
            async for info in infos:
                yield info

    async def close(self) -> None:
        await self._store.close()
