"""A store that misbehaves as S3 may, on purpose: for tests and benchmarks. `objects.fault_draws`.

A late put happens before the first call that comes after its time, by whichever wrapper shares
these `Faults`, and at `close` if none does: so no task of its own is needed, and two runs of one
seed agree.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

from logstore.errors import AlreadyExists, LogstoreError, OutcomeUnknown
from logstore.objects.fault_draws import Faults, Late, put_error
from logstore.ports.clock import Clock, blocking_sleep_s
from logstore.ports.objects import BlockingObjectStore, Buffer, ObjectInfo, ObjectStore


class FaultyStore:
    """An `ObjectStore` that does to `store` what `faults` draws."""

    def __init__(self, store: ObjectStore, faults: Faults, clock: Clock) -> None:
        self._store = store
        self._faults = faults
        self._clock = clock

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        fault = await self._begin(self._faults.faults.of_puts())
        if fault == "put late":
            self._faults.postpone(key, b"".join(parts))
        if (error := put_error(fault, key)) is not None:
            raise error
        try:
            await self._store.create(key, parts)
        except AlreadyExists:
            if fault != "put answer lost":
                raise
        if fault == "put answer lost":
            raise OutcomeUnknown(f"time-out key={key}")
        if fault == "put doubled":
            await self._store.create(key, parts)

    async def get(self, key: str) -> bytes | memoryview:
        fault = await self._begin(self._faults.faults.of_gets())
        if (error := self._faults.get_error(fault, key)) is not None:
            raise error
        return self._faults.spoil(bytes(await self._store.get(key)), fault)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        fault = await self._begin(self._faults.faults.of_gets())
        if (error := self._faults.get_error(fault, key)) is not None:
            raise error
        return self._faults.spoil(await self._store.get_range(key, start, length), fault)

    async def delete(self, key: str) -> None:
        await self._begin({})
        await self._store.delete(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        await self._begin({})
        async for info in self._store.list(prefix):
            yield info

    async def close(self) -> None:
        """Applies all late writes before it closes."""
        await self._land(self._faults.due(all_of_them=True))
        await self._store.close()

    async def _begin(self, kinds: Mapping[str, float]) -> str | None:
        await self._land(self._faults.due())
        if delay_s := self._faults.draw_delay_s():
            await self._clock.sleep_s(delay_s)
        return self._faults.draw(kinds) if kinds else None

    async def _land(self, due: Sequence[Late]) -> None:
        for late in due:
            error: LogstoreError | None = None
            try:
                await self._store.create(late.key, [late.data])
            except LogstoreError as failed:
                error = failed
            self._faults.see_late(error)


class FaultyBlockingStore:
    """A `BlockingObjectStore` that does to `store` what `faults` draws."""

    def __init__(
        self,
        store: BlockingObjectStore,
        faults: Faults,
        sleep_s: Callable[[float], None] = blocking_sleep_s,
    ) -> None:
        self._store = store
        self._faults = faults
        self._sleep_s = sleep_s

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        fault = self._begin(self._faults.faults.of_puts())
        if fault == "put late":
            self._faults.postpone(key, b"".join(parts))
        if (error := put_error(fault, key)) is not None:
            raise error
        try:
            self._store.create(key, parts)
        except AlreadyExists:
            if fault != "put answer lost":
                raise
        if fault == "put answer lost":
            raise OutcomeUnknown(f"time-out key={key}")
        if fault == "put doubled":
            self._store.create(key, parts)

    def get(self, key: str) -> bytes:
        fault = self._begin(self._faults.faults.of_gets())
        if (error := self._faults.get_error(fault, key)) is not None:
            raise error
        return self._faults.spoil(self._store.get(key), fault)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        fault = self._begin(self._faults.faults.of_gets())
        if (error := self._faults.get_error(fault, key)) is not None:
            raise error
        return self._faults.spoil(self._store.get_range(key, start, length), fault)

    def delete(self, key: str) -> None:
        self._begin({})
        self._store.delete(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._begin({})
        return self._store.list(prefix)

    def close(self) -> None:
        """Applies all late writes before it closes."""
        self._land(self._faults.due(all_of_them=True))
        self._store.close()

    def _begin(self, kinds: Mapping[str, float]) -> str | None:
        self._land(self._faults.due())
        if delay_s := self._faults.draw_delay_s():
            self._sleep_s(delay_s)
        return self._faults.draw(kinds) if kinds else None

    def _land(self, due: Sequence[Late]) -> None:
        for late in due:
            error: LogstoreError | None = None
            try:
                self._store.create(late.key, [late.data])
            except LogstoreError as failed:
                error = failed
            self._faults.see_late(error)
