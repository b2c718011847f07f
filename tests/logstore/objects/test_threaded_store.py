"""The thread adapter: cancellation, bounds and closing."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from logstore.errors import Invalid, NotFound, Throttled
from logstore.objects.memory import MemoryObjects
from logstore.objects.threaded import ThreadedStore
from logstore.ports.clock import SystemClock
from logstore.ports.objects import Buffer, ObjectInfo

DEADLINE_S = 30


class GatedStore:
    """A store in memory whose creates wait until the gate is opened."""

    def __init__(self) -> None:
        self.objects = MemoryObjects(SystemClock())
        self.begun = threading.Semaphore(0)
        self.gate = threading.Event()
        self.closed = False

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self.begun.release()
        assert self.gate.wait(DEADLINE_S)
        assert not self.closed
        self.objects.create(key, parts)

    def get(self, key: str) -> bytes:
        return self.objects.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.objects.get_range(key, start, length)

    def delete(self, key: str) -> None:
        self.objects.delete(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self.objects.list(prefix)

    def close(self) -> None:
        self.closed = True


async def begun(gated: GatedStore) -> None:
    assert await asyncio.to_thread(gated.begun.acquire, timeout=DEADLINE_S)


def test_a_cancelled_create_goes_on_and_close_waits_for_it() -> None:
    gated = GatedStore()

    async def scenario() -> None:
        store = ThreadedStore(gated, threads=1)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(store.create("running", [b"x"]))
            queued = tasks.create_task(store.create("queued", [b"y"]))
            await begun(gated)
            running.cancel()
            queued.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert list(gated.objects.list("")) == []
            closing = tasks.create_task(store.close())
            await asyncio.to_thread(gated.begun.acquire, blocking=False)
            assert not closing.done()
            gated.gate.set()
        assert [info.key for info in gated.objects.list("")] == ["queued", "running"]
        assert gated.closed

    asyncio.run(scenario())


def test_an_error_that_no_caller_waits_for_any_more_is_dropped() -> None:
    gated = GatedStore()
    gated.objects.create("there", [b"x"])
    complaints: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))
        store = ThreadedStore(gated, threads=1)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(store.create("there", [b"y"]))
            await begun(gated)
            running.cancel()
        gated.gate.set()
        await store.close()

    asyncio.run(scenario())
    assert complaints == []


def test_a_call_beyond_the_bound_is_throttled_even_if_those_before_were_cancelled() -> None:
    gated = GatedStore()

    async def scenario() -> None:
        store = ThreadedStore(gated, threads=1, calls_max=2)
        async with asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(store.create(f"c/{n}", [b"x"])) for n in range(2)]
            await begun(gated)
            for call in calls:
                call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calls[1]
            with pytest.raises(Throttled):
                await store.get("c/0")
        gated.gate.set()
        await store.close()

    asyncio.run(scenario())


def test_calls_run_side_by_side_up_to_the_number_of_threads() -> None:
    gated = GatedStore()

    async def scenario() -> None:
        store = ThreadedStore(gated, threads=3)
        async with asyncio.TaskGroup() as tasks:
            for number in range(5):
                tasks.create_task(store.create(f"c/{number}", [b"x"]))
            for _ in range(3):
                await begun(gated)
            assert not gated.begun.acquire(blocking=False)
            gated.gate.set()
        assert [info.key async for info in store.list("c/")] == [f"c/{n}" for n in range(5)]
        await store.close()

    asyncio.run(scenario())


def test_errors_come_through_and_a_closed_store_takes_no_calls() -> None:
    async def scenario() -> None:
        store = ThreadedStore(MemoryObjects(SystemClock()), threads=1)
        with pytest.raises(NotFound):
            await store.get("missing")
        await store.close()
        with pytest.raises(Invalid):
            await store.get("missing")

    asyncio.run(scenario())
