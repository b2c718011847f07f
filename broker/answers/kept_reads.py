"""Reads of objects that never change: made once, however many ask, and kept for a while.

Results that were used last stay, up to a number of them and a sum of their weights; one alone may
be heavier, until the next is read.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class KeptReads(Generic[K, V]):
    def __init__(
        self,
        read: Callable[[K], Coroutine[Any, Any, V]],
        weight_of: Callable[[V], int],
        *,
        count_max: int,
        weight_max: int,
    ) -> None:
        self._read = read
        self._weight_of = weight_of
        self._count_max = count_max
        self._weight_max = weight_max
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._reading: dict[K, asyncio.Future[V]] = {}
        self.weight = 0
        """Of all that is kept."""

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: K) -> V:
        """Raises as the read does."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        while (reading := self._reading.get(key)) is not None:
            try:
                return await asyncio.shield(reading)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling() or not reading.cancelled():
                    raise
                # Only the caller that was reading it was cancelled; now this one reads.
        return await self._read_once(key)

    def forget(self, key: K) -> None:
        dropped = self._kept.pop(key, None)
        self.weight -= 0 if dropped is None else self._weight_of(dropped)

    async def _read_once(self, key: K) -> V:
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._reading[key] = future
        try:
            value = await self._read(key)
        except BaseException as error:
            _end(future, error)
            raise
        finally:
            del self._reading[key]
        self._keep(key, value)
        future.set_result(value)
        return value

    def _keep(self, key: K, value: V) -> None:
        self._kept[key] = value
        self.weight += self._weight_of(value)
        while len(self._kept) > 1 and (
            len(self._kept) > self._count_max or self.weight > self._weight_max
        ):
            self.forget(next(iter(self._kept)))


def _end(future: "asyncio.Future[V]", error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)
        future.exception()  # there may be no other waiter
