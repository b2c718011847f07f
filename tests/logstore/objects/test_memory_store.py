"""The memory store, beyond what every store promises."""

import asyncio

import pytest

from logstore.errors import AlreadyExists, Invalid
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.clock import SystemClock


def test_views_of_the_same_objects_see_the_same() -> None:
    objects = MemoryObjects(SystemClock())

    async def scenario() -> None:
        one, two = MemoryStore(objects), MemoryStore(objects)
        await one.create("a", [b"x"])
        await one.close()
        assert await two.get("a") == objects.get("a") == b"x"
        with pytest.raises(AlreadyExists):
            await two.create("a", [b"y"])

    asyncio.run(scenario())


def test_a_key_cannot_be_a_path_prefix_of_another() -> None:
    objects = MemoryObjects(SystemClock())
    objects.create("a/b/c", [b"x"])
    for key in ("a", "a/b", "a/b/c/d", "a/b/c/d/e"):
        with pytest.raises(Invalid):
            objects.create(key, [b"x"])
    objects.create("a/bb", [b"x"])
    objects.delete("a/b/c")
    objects.create("a/b", [b"x"])
    with pytest.raises(Invalid):
        objects.create("a", [b"x"])


def test_a_list_does_not_see_what_comes_later() -> None:
    objects = MemoryObjects(SystemClock())
    objects.create("a", [b"x"])
    found = objects.list("")
    objects.create("b", [b"x"])
    objects.delete("a")
    assert [info.key for info in found] == ["a"]


def test_the_asynchronous_view_never_waits() -> None:
    store = MemoryStore(MemoryObjects(SystemClock()))
    steps = [store.create("a", [b"x"]), store.get("a"), store.delete("a"), store.close()]
    for step in steps:
        with pytest.raises(StopIteration):
            step.send(None)  # ends at its first step, without a loop
