"""Any blocking store as an asynchronous one, on threads of its own.

A cancelled or timed-out call still happens: it ends in the background and its outcome is dropped,
so no descriptor is closed under a running thread. What that means for the caller: the `parts` of a
cancelled create are in use until `close` has returned.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from logstore.errors import Invalid, Throttled
from logstore.ports.objects import BlockingObjectStore, Buffer, ObjectInfo

_LIST_PAGE = 1000  # objects listed per turn of a thread

_Answer = TypeVar("_Answer")


class ThreadedStore:
    """An `ObjectStore` that makes its calls on `store` from up to `threads` threads.

    At most `calls_max` calls are taken at a time; one more is `Throttled`.
    """

    def __init__(self, store: BlockingObjectStore, *, threads: int, calls_max: int = 1000) -> None:
        assert 0 < threads <= calls_max
        self._store = store
        self._room = threading.BoundedSemaphore(calls_max)
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="objects")

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._run(lambda: self._store.create(key, parts))

    async def get(self, key: str) -> bytes:
        return await self._run(lambda: self._store.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._run(lambda: self._store.get_range(key, start, length))

    async def delete(self, key: str) -> None:
        await self._run(lambda: self._store.delete(key))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        infos = await self._run(lambda: self._store.list(prefix))
        while page := await self._run(lambda: tuple(islice(infos, _LIST_PAGE))):
            for info in page:
                yield info

    async def close(self) -> None:
        """Waits for every call that was begun, also those whose caller has gone."""
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)
        self._store.close()

    async def _run(self, call: Callable[[], _Answer]) -> _Answer:
        if self._closed:
            raise Invalid("the store is closed")
        if not self._room.acquire(blocking=False):
            raise Throttled("too many calls are waiting; the disk may be hanging")
        future = self._pool.submit(call)
        future.add_done_callback(lambda _: self._room.release())
        # Shielded, so that even a call that has not begun keeps its place until it has ended:
        # callers that time out on a hanging disk and try again cannot pile up calls.
        outcome = asyncio.wrap_future(future)
        outcome.add_done_callback(_drop)
        return await asyncio.shield(outcome)


def _drop(outcome: asyncio.Future[Any]) -> None:
    """Keeps asyncio from complaining about an error whose caller has gone."""
    if not outcome.cancelled():
        outcome.exception()
