"""The range cache: what is read once, what is kept, and for how long."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.clock import SystemClock
from logstore.errors import NotFound, Retryable
from logstore.objects.caching import CachingBlockingStore, CachingStore, RangeCache
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.objects.metered import MeteredBlockingStore, MeteredStore, StoreCounts
from logstore.testing.virtual_loop import VirtualClock, run

MEBIBYTE = 1 << 20


def objects_with(**data: bytes) -> MemoryObjects:
    objects = MemoryObjects(SystemClock())
    for key, value in data.items():
        objects.create(key, [value])
    return objects


def test_the_same_range_is_read_once() -> None:
    counts = StoreCounts()
    cache = RangeCache(MEBIBYTE)
    store = CachingBlockingStore(MeteredBlockingStore(objects_with(a=b"0123456789"), counts), cache)
    assert [store.get_range("a", 2, 3) for _ in range(5)] == [b"234"] * 5
    assert store.get_range("a", 2, 4) == b"2345"
    assert counts.requests().gets == 2
    assert (cache.hits, cache.misses) == (4, 2)


def test_a_whole_object_answers_all_its_ranges() -> None:
    counts = StoreCounts()
    store = CachingBlockingStore(
        MeteredBlockingStore(objects_with(a=b"0123456789"), counts), RangeCache(MEBIBYTE)
    )
    store.get("a")
    assert store.get_range("a", 8, 5) == b"89"
    assert store.get_range("a", 20, 5) == b""
    assert counts.requests().gets == 1


def test_absence_is_never_kept() -> None:
    objects = objects_with()
    store = CachingBlockingStore(objects, RangeCache(MEBIBYTE))
    with pytest.raises(NotFound):
        store.get("a")
    objects.create("a", [b"here"])
    assert store.get("a") == b"here"


def test_what_is_deleted_or_forgotten_is_read_anew() -> None:
    objects, cache = objects_with(a=b"old"), RangeCache(MEBIBYTE)
    store = CachingBlockingStore(objects, cache)
    store.get_range("a", 0, 3)
    store.delete("a")
    objects.create("a", [b"new"])
    assert store.get_range("a", 0, 3) == b"new"
    objects.delete("a")
    objects.create("a", [b"mended"])
    cache.forget("a")
    assert store.get("a") == b"mended"


@given(
    st.integers(1_000, 20_000),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 99), st.integers(0, 3_000))),
)
def test_a_cache_stays_below_its_limit_and_answers_as_the_store(
    bytes_max: int, reads: list[tuple[str, int, int]]
) -> None:
    objects = objects_with(**{key: key.encode() * 2_500 for key in "abcd"})
    cache = RangeCache(bytes_max)
    store = CachingBlockingStore(objects, cache)
    for key, start, length in reads:
        assert store.get_range(key, start, length) == objects.get_range(key, start, length)
        assert 0 <= cache.size_bytes <= bytes_max
    for key in "abcd":
        cache.forget(key)
    assert cache.size_bytes == 0


def test_what_was_read_last_is_kept_longest() -> None:
    counts = StoreCounts()
    objects = objects_with(
        a=b"a" * 1000, b=b"b" * 1000, c=b"c" * 1000, d=b"d" * 1000, e=b"e" * 1000
    )
    store = CachingBlockingStore(MeteredBlockingStore(objects, counts), RangeCache(5_200))
    for key in "abcdae":  # b is the oldest when e needs its place
        store.get(key)
    before = counts.requests().gets
    store.get("a")
    assert counts.requests().gets == before
    store.get("b")
    assert counts.requests().gets == before + 1


class SlowObjects(MemoryObjects):
    """Reads wait for `go`."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.began = threading.Semaphore(0)
        self.go = threading.Event()

    def get(self, key: str) -> bytes:
        self.began.release()
        assert self.go.wait(10)
        return super().get(key)


@pytest.mark.parametrize("is_there", [True, False])
def test_threads_that_read_the_same_at_once_make_one_read(is_there: bool) -> None:
    objects, counts = SlowObjects(), StoreCounts()
    if is_there:
        objects.create("a", [b"data"])
    store = CachingBlockingStore(MeteredBlockingStore(objects, counts), RangeCache(MEBIBYTE))

    def read(_: int) -> object:
        try:
            return store.get("a")
        except NotFound:
            return NotFound

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(read, 0)
        assert objects.began.acquire(timeout=10)
        others = [pool.submit(read, number) for number in range(1, 8)]
        objects.go.set()
        found = {future.result() for future in (first, *others)}
    assert found == {b"data" if is_there else NotFound}
    if is_there:
        assert counts.requests().gets == 1


class LazyStore(MemoryStore):
    """A read takes a second; the first `failing` fail after it."""

    def __init__(self, objects: MemoryObjects, failing: int = 0) -> None:
        super().__init__(objects)
        self._failing = failing

    async def get(self, key: str) -> bytes:
        await VirtualClock().sleep_s(1)
        self._failing -= 1
        if self._failing >= 0:
            raise Retryable("not now")
        return await super().get(key)


def test_tasks_that_read_the_same_at_once_make_one_read_and_share_its_error() -> None:
    counts = StoreCounts()

    async def story() -> None:
        lazy = MeteredStore(LazyStore(objects_with(a=b"data"), failing=1), counts)
        store = CachingStore(lazy, RangeCache(MEBIBYTE))
        failed = await asyncio.gather(*(store.get("a") for _ in range(5)), return_exceptions=True)
        assert [type(one) for one in failed] == [Retryable] * 5
        assert await asyncio.gather(*(store.get("a") for _ in range(5))) == [b"data"] * 5
        assert await store.get_range("a", 1, 2) == b"at"

    run(story())
    assert counts.requests().gets == 2


def test_who_waits_goes_on_when_the_reader_is_cancelled() -> None:
    async def story() -> None:
        store = CachingStore(LazyStore(objects_with(a=b"data")), RangeCache(MEBIBYTE))
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(store.get("a"))
            await VirtualClock().sleep_s(0.5)
            waiter = group.create_task(store.get("a"))
            await VirtualClock().sleep_s(0.1)
            reader.cancel()
            assert await waiter == b"data"

    run(story())


def test_a_waiter_that_is_cancelled_leaves_the_read_alone() -> None:
    async def story() -> None:
        store = CachingStore(LazyStore(objects_with(a=b"data")), RangeCache(MEBIBYTE))
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(store.get("a"))
            await VirtualClock().sleep_s(0.5)
            waiter = group.create_task(store.get("a"))
            await VirtualClock().sleep_s(0.1)
            waiter.cancel()
            assert await reader == b"data"
            assert waiter.cancelled()

    run(story())
