"""Drives the generators of `protocol.steps` against real ports: on an event loop, or blocking.

Each holds no rule of its own: a request is one call of a port.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Protocol, TypeVar

from logstore.errors import LogstoreError, NotFound, without_frames
from logstore.ports.clock import Clock, SystemClock, blocking_sleep_s
from logstore.ports.objects import BlockingObjectStore, ObjectStore
from logstore.ports.registry import Registry, Row
from logstore.protocol.deletion.believed_time import (
    BelievedTime,
    believed_now,
    grace_start,
    store_now,
)
from logstore.protocol.steps import (
    BackOff,
    BelievedMs,
    Create,
    Delete,
    DeleteRow,
    DrawNonce,
    Gather,
    Get,
    GetRange,
    GetRow,
    GraceStartMs,
    ListKeys,
    ModifiedMs,
    MonotonicS,
    NowMs,
    PutRow,
    QueryRows,
    Request,
    Steps,
    StoreMs,
    UpdateRow,
    Wait,
)
from logstore.retry import pause_s

T = TypeVar("T")
V = TypeVar("V")

TOGETHER_MAX = 100


@dataclass(frozen=True, slots=True)
class StepRunner:
    """Drives steps on an event loop."""

    store: ObjectStore
    registry: Registry
    clock: Clock
    rng: random.Random
    draw_nonce: Callable[[], bytes]
    believed: BelievedTime = field(default_factory=BelievedTime)
    """Knowledge of the time, shared by all protocols that this object runs."""

    async def run(self, steps: Steps[T]) -> T:
        answer: Any = None
        error: LogstoreError | None = None
        while True:
            try:
                request = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                answer, error = None, None  # an error that comes back bears this frame
            try:
                answer = await self._perform(request)
            except LogstoreError as failed:
                error = without_frames(failed)

    async def _perform(self, request: Request) -> Any:
        match request:
            case Create() | Get() | GetRange() | Delete() | ListKeys() | ModifiedMs():
                return await self._perform_object(request)
            case BackOff(attempt):
                return await self.clock.sleep_s(pause_s(attempt, self.rng))
            case Wait(seconds):
                return await self.clock.sleep_s(seconds)
            case NowMs() | MonotonicS() | BelievedMs() | StoreMs() | GraceStartMs():
                return await self._read_time(request)
            case DrawNonce():
                return self.draw_nonce()
            case Gather(steps):
                return await self._together(steps)
            case _:
                return await self._perform_row(request)

    async def _read_time(
        self, request: NowMs | MonotonicS | BelievedMs | StoreMs | GraceStartMs
    ) -> int | float:
        match request:
            case NowMs():
                return self.clock.now_ms()
            case MonotonicS():
                return self.clock.monotonic_s()
            case BelievedMs():
                return await self.run(believed_now(self.believed))
            case StoreMs():
                return await self.run(store_now(self.believed))
            case GraceStartMs():
                return await self.run(grace_start(self.believed))

    async def _perform_object(
        self, request: Create | Get | GetRange | Delete | ListKeys | ModifiedMs
    ) -> Any:
        match request:
            case Create(key, parts):
                await self.store.create(key, parts)
            case Get(key):
                return await self.store.get(key)
            case GetRange(key, start, length):
                return await self.store.get_range(key, start, length)
            case Delete(key):
                await self.store.delete(key)
            case ListKeys(prefix):
                return sorted([info.key async for info in self.store.list(prefix)])
            case ModifiedMs(key):
                async for info in self.store.list(key):
                    if info.key == key:
                        return info.modified_ms
                raise NotFound(f"no object key={key}")
        return None

    async def _perform_row(self, request: Request) -> Any:
        match request:
            case GetRow(pk, sk):
                return await self.registry.get(pk, sk)
            case QueryRows(pk, prefix):
                return await self.registry.query(pk, prefix)
            case PutRow(pk, sk, row, conditions):
                return await self.registry.put_if(pk, sk, row, *conditions)
            case UpdateRow(pk, sk, sets, conditions):
                return await self.registry.update_if(pk, sk, sets, *conditions)
            case DeleteRow(pk, sk, conditions):
                return await self.registry.delete_if(pk, sk, *conditions)
            case _:
                raise AssertionError(f"unknown request {request}")

    async def _together(self, steps: Sequence[Steps[Any]]) -> list[Any]:
        results: list[Any] = []
        for first in range(0, len(steps), TOGETHER_MAX):
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._outcome(one))
                    for one in steps[first : first + TOGETHER_MAX]
                ]
            results += [task.result() for task in tasks]
        return results

    async def _outcome(self, steps: Steps[T]) -> T | LogstoreError:
        return await outcome_of(self.run(steps))


async def outcome_of(call: Coroutine[Any, Any, T]) -> T | LogstoreError:
    """The result of `call`, or the `LogstoreError` that ended it."""
    try:
        return await call
    except LogstoreError as error:
        return error


class RegistryReads(Protocol):
    """The calls of a registry that a blocking reader needs."""

    def get(self, pk: str, sk: str) -> Row | None: ...

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]: ...


@dataclass(frozen=True, slots=True)
class BlockingStepRunner:
    """Drives reading steps in this thread: Spark and tools. It changes nothing anywhere."""

    store: BlockingObjectStore
    registry: RegistryReads | None
    rng: random.Random
    threads: Sequence[ThreadPoolExecutor] = ()
    """One pool for each depth of `Gather` within `Gather`; deeper ones run one after the other.

    A pool's threads wait for the next pool alone, so no two of them can wait for each other.
    """
    sleep_s: Callable[[float], None] = blocking_sleep_s
    monotonic_s: Callable[[], float] = SystemClock().monotonic_s
    _turn: Lock = field(default_factory=Lock)
    """Only requests run at the same time, never the steps: these share caches and chains, as they
    do on an event loop."""

    def run(self, steps: Steps[T]) -> T:
        answer: Any = None
        error: LogstoreError | None = None
        while True:
            try:
                with self._turn:
                    request = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                answer, error = None, None  # an error that comes back bears this frame
            try:
                answer = self._perform(request)
            except LogstoreError as failed:
                error = without_frames(failed)

    def _perform(self, request: Request) -> Any:
        match request:
            case Get() | GetRange() | ListKeys() | ModifiedMs():
                return self._perform_object(request)
            case GetRow(pk, sk):
                assert self.registry is not None, "this step runner has no registry"
                return self.registry.get(pk, sk)
            case QueryRows(pk, prefix):
                assert self.registry is not None, "this step runner has no registry"
                return self.registry.query(pk, prefix)
            case BackOff(attempt):
                return self.sleep_s(pause_s(attempt, self.rng))
            case Wait(seconds):
                return self.sleep_s(seconds)
            case MonotonicS():
                return self.monotonic_s()
            case Gather(steps):
                return self.side_by_side(replace(self, threads=self.threads[1:]).outcome, steps)
            case _:
                raise AssertionError(f"a reader does not {type(request).__name__}")

    def _perform_object(self, request: Get | GetRange | ListKeys | ModifiedMs) -> Any:
        match request:
            case Get(key):
                return self.store.get(key)
            case GetRange(key, start, length):
                return self.store.get_range(key, start, length)
            case ListKeys(prefix):
                return sorted(info.key for info in self.store.list(prefix))
            case ModifiedMs(key):
                for info in self.store.list(key):
                    if info.key == key:
                        return info.modified_ms
                raise NotFound(f"no object key={key}")

    def side_by_side(self, call: Callable[[V], T], items: Sequence[V]) -> list[T]:
        """`call` of each item, in the first pool's threads; it must not run steps by this runner.

        Raises the first error, in the order of `items`.
        """
        if not self.threads or len(items) < 2:
            return [call(item) for item in items]
        return list(self.threads[0].map(call, items))

    def outcome(self, steps: Steps[T]) -> T | LogstoreError:
        """The result of `steps`, or the `LogstoreError` that ended them."""
        try:
            return self.run(steps)
        except LogstoreError as error:
            return error
