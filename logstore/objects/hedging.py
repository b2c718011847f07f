"""Sends a request that takes too long a second time and takes the better outcome of the two.

Safe for creates, since both have the same key and the same bytes (safety rule 2). What two creates
of one's own can come to:

    either is created                  → created; the other is called off
    either meets an object             → "already exists": perhaps our own, so the caller looks, as
                                         it must anyway; waiting for the other would cost the stall
                                         that the second was sent to escape
    both failed                        → "outcome unknown", unless nothing happened to either
    refused                            → only if the other does not do better

When to: `objects.hedge_policy`. Deletes and lists are not hedged.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from logstore.errors import (
    AlreadyExists,
    Denied,
    LogstoreError,
    NotFound,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.objects.hedge_policy import HedgePolicy, Kind
from logstore.ports.clock import Clock
from logstore.ports.objects import Buffer, ObjectInfo, ObjectStore

T = TypeVar("T")


class HedgingStore:
    """An `ObjectStore` that hedges calls of `store`."""

    def __init__(self, store: ObjectStore, policy: HedgePolicy, clock: Clock) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        size_bytes = sum(memoryview(part).nbytes for part in parts)
        await self._hedge("create", size_bytes, lambda: self._store.create(key, parts))

    async def get(self, key: str) -> bytes | memoryview:
        # Of unknown size: a class of its own beside the small ranges would rarely fill.
        return await self._hedge("read", 1 << 20, lambda: self._store.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._hedge("read", length, lambda: self._store.get_range(key, start, length))

    async def delete(self, key: str) -> None:
        await self._store.delete(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async for info in self._store.list(prefix):
            yield info

    async def close(self) -> None:
        await self._store.close()

    async def _hedge(self, kind: Kind, size_bytes: int, call: Callable[[], Awaitable[T]]) -> T:
        began_s = self._clock.monotonic_s()
        delay_s = self._policy.begin(kind, size_bytes, began_s)
        try:
            if delay_s is None:
                outcome = await self._attempt(call)
            else:
                outcome = await self._attempt_twice(kind, call, delay_s)
        finally:
            self._policy.end(kind, size_bytes, self._clock.monotonic_s() - began_s)
        try:
            if isinstance(outcome, LogstoreError):
                raise outcome
            return outcome
        finally:
            del outcome  # an error bears this frame

    async def _attempt_twice(
        self, kind: Kind, call: Callable[[], Awaitable[T]], delay_s: float
    ) -> T | LogstoreError:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(self._attempt(call))
            await asyncio.wait({first}, timeout=delay_s)
            if first.done() or not self._policy.take(kind, self._clock.monotonic_s()):
                return await first
            second = group.create_task(self._attempt(call))
            outcome = await _better(first, second)
            first.cancel()
            second.cancel()
        return outcome

    async def _attempt(self, call: Callable[[], Awaitable[T]]) -> T | LogstoreError:
        try:
            return await call()
        except Throttled as error:
            self._policy.throttle(self._clock.monotonic_s())
            return error
        except LogstoreError as error:
            return error


async def _better(
    first: "asyncio.Task[T | LogstoreError]", second: "asyncio.Task[T | LogstoreError]"
) -> T | LogstoreError:
    done, _ = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    early = first if first in done else second
    outcome = early.result()
    if _settles(outcome):
        return outcome
    late = await (second if early is first else first)
    return late if _settles(late) else _worse(outcome, late)


def _settles(outcome: object) -> bool:
    return not isinstance(outcome, LogstoreError) or isinstance(outcome, AlreadyExists | NotFound)


def _worse(one: T | LogstoreError, other: T | LogstoreError) -> T | LogstoreError:
    """Of two errors, outcome unknown before all others; retryable and denied after all others."""
    for error in (one, other):
        if isinstance(error, OutcomeUnknown):
            return error
    return one if not isinstance(one, Retryable | Denied) else other
