"""A store of an event loop, as threads beside the loop read it."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from logstore.errors import Invalid, NotFound, OutcomeUnknown
from logstore.objects.from_threads import FromThreads
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.clock import SystemClock

T = TypeVar("T")


class Silent(MemoryStore):
    """Never answers."""

    async def get(self, key: str) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


def in_a_thread(
    call: Callable[[FromThreads], T], *, silent: bool = False, timeout_s: float = 60.0
) -> T:
    async def main() -> T:
        objects = MemoryObjects(SystemClock())
        objects.create("a/1", [b"one", b"two"])
        objects.create("a/2", [b"three"])
        kind = Silent if silent else MemoryStore
        store = FromThreads(kind(objects), asyncio.get_running_loop(), timeout_s=timeout_s)
        return await asyncio.to_thread(call, store)

    return asyncio.run(main())


def test_threads_read_what_is_there() -> None:
    assert in_a_thread(lambda store: store.get("a/1")) == b"onetwo"
    assert in_a_thread(lambda store: store.get_range("a/1", 2, 2)) == b"et"
    assert in_a_thread(lambda store: [info.key for info in store.list("a/")]) == ["a/1", "a/2"]


def test_errors_come_as_they_are() -> None:
    with pytest.raises(NotFound):
        in_a_thread(lambda store: store.get("b"))


@pytest.mark.parametrize(
    "write", [lambda store: store.create("b", [b""]), lambda store: store.delete("a/1")]
)
def test_threads_write_nothing(write: Callable[[FromThreads], None]) -> None:
    with pytest.raises(Invalid, match="only read"):
        in_a_thread(write)


def test_a_store_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    with pytest.raises(OutcomeUnknown):
        in_a_thread(lambda store: store.get("a/1"), silent=True, timeout_s=0.01)


def test_once_the_loop_is_closed_nothing_can_be_read() -> None:
    store = in_a_thread(lambda store: store)

    with pytest.raises(Invalid, match="closed"):
        store.get("a/1")
