"""An asynchronous store as blocking threads beside its event loop see it. Only for reading.

So what a broker's threads read goes through the same client, meters and retries as all else.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from logstore.errors import Invalid, OutcomeUnknown
from logstore.ports.objects import Buffer, ObjectInfo, ObjectStore

_READ_ONLY = "threads only read"

_Answer = TypeVar("_Answer")


class FromThreads:
    """A `BlockingObjectStore` for any thread but the loop's; one call lasts `timeout_s` at most."""

    def __init__(
        self, store: ObjectStore, loop: asyncio.AbstractEventLoop, *, timeout_s: float
    ) -> None:
        self._store = store
        self._loop = loop
        self._timeout_s = timeout_s

    def get(self, key: str) -> bytes:
        return bytes(self._run(self._store.get(key)))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._run(self._store.get_range(key, start, length))

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        raise Invalid(f"{_READ_ONLY}: key={key}")

    def delete(self, key: str) -> None:
        raise Invalid(f"{_READ_ONLY}: key={key}")

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter(self._run(self._listed(prefix)))

    async def _listed(self, prefix: str) -> Sequence[ObjectInfo]:
        return [info async for info in self._store.list(prefix)]

    def close(self) -> None:
        """The store is its loop's to close."""

    def _run(self, call: Coroutine[Any, Any, _Answer]) -> _Answer:
        if self._loop.is_closed():
            call.close()
            raise Invalid("the store is closed")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(self._timeout_s)
        except CancelledError as error:
            raise Invalid("the store is closed") from error
        except TimeoutError as error:
            future.cancel()
            raise OutcomeUnknown(f"no answer of the store: seconds={self._timeout_s}") from error
