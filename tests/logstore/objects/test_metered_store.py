"""Counting calls, bytes, errors and dollars."""

import asyncio
from threading import Thread

import pytest

from logstore.errors import AlreadyExists, NotFound
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.objects.metered import KindCounts, MeteredBlockingStore, MeteredStore, StoreCounts
from logstore.ports.clock import SystemClock
from logstore.prices import (
    GIGABYTE,
    Requests,
    RowUnits,
    cost_of,
    cost_of_rows,
    cost_of_storage,
    read_units,
    write_units,
)

EXPECTED = {
    "create": KindCounts(calls=3, bytes=5 + 0 + 1, errors=1),
    "get": KindCounts(calls=2, bytes=5, errors=1),
    "get_range": KindCounts(calls=1, bytes=2, errors=0),
    "delete": KindCounts(calls=2, bytes=0, errors=0),
    "list": KindCounts(calls=1, bytes=0, errors=0),
}


def test_a_blocking_store_counts_every_kind_of_call() -> None:
    counts = StoreCounts()
    store = MeteredBlockingStore(MemoryObjects(SystemClock()), counts)
    store.create("a", [b"12", b"345"])
    store.create("empty", [])
    with pytest.raises(AlreadyExists):
        store.create("a", [b"1"])
    store.get("a")
    with pytest.raises(NotFound):
        store.get("missing")
    store.get_range("a", 3, 10)
    assert len(list(store.list(""))) == 2
    store.delete("a")
    store.delete("a")
    assert counts.snapshot() == EXPECTED


def test_an_asynchronous_store_counts_the_same() -> None:
    counts = StoreCounts()

    async def scenario() -> None:
        store = MeteredStore(MemoryStore(MemoryObjects(SystemClock())), counts)
        await store.create("a", [b"12", b"345"])
        await store.create("empty", [])
        with pytest.raises(AlreadyExists):
            await store.create("a", [b"1"])
        await store.get("a")
        with pytest.raises(NotFound):
            await store.get("missing")
        await store.get_range("a", 3, 10)
        assert len([info async for info in store.list("")]) == 2
        await store.delete("a")
        await store.delete("a")

    asyncio.run(scenario())
    assert counts.snapshot() == EXPECTED


@pytest.mark.parametrize(("objects", "pages"), [(0, 1), (1, 1), (1000, 1), (1001, 2)])
def test_a_list_counts_as_many_requests_as_s3_has_pages(objects: int, pages: int) -> None:
    counts = StoreCounts()
    memory = MemoryObjects(SystemClock())
    for number in range(objects):
        memory.create(f"k/{number}", [])
    assert len(list(MeteredBlockingStore(memory, counts).list("k/"))) == objects
    assert counts.snapshot()["list"].calls == pages


def test_a_list_that_is_left_early_counts_and_is_no_error() -> None:
    counts = StoreCounts()
    memory = MemoryObjects(SystemClock())
    for number in range(3):
        memory.create(f"k/{number}", [])
    listed = MeteredBlockingStore(memory, counts).list("k/")
    next(listed)
    del listed
    assert counts.snapshot()["list"] == KindCounts(calls=1, bytes=0, errors=0)


def test_counts_shared_by_threads_miss_nothing() -> None:
    counts = StoreCounts()

    def add() -> None:
        for _ in range(1000):
            counts.add("get", calls=1, moved_bytes=3, errors=0)

    threads = [Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts.snapshot()["get"] == KindCounts(calls=4000, bytes=12000, errors=0)


def test_dollars_are_those_of_the_price_list() -> None:
    counts = StoreCounts()
    for kind in ("create", "get", "get_range", "delete", "list"):
        counts.add(kind, calls=1_000_000, moved_bytes=0, errors=0)
    assert counts.requests() == Requests(1_000_000, 2_000_000, 1_000_000, 1_000_000)
    assert counts.dollars() == pytest.approx(5 + 2 * 0.4 + 5)


def test_ten_brokers_that_flush_every_quarter_second_cost_17_dollars_a_day() -> None:
    assert cost_of(Requests(creates=10 * 4 * 86_400)) == pytest.approx(17.28)


def test_ten_chains_probed_every_second_cost_35_cents_a_day() -> None:
    assert cost_of(Requests(gets=10 * 86_400)) == pytest.approx(0.3456)


def test_ten_heartbeats_a_second_cost_54_cents_a_day() -> None:
    assert cost_of_rows(RowUnits(writes=10 * 86_400)) == pytest.approx(0.54)


def test_a_terabyte_for_half_a_month_costs_11_dollars() -> None:
    assert cost_of_storage(1000 * GIGABYTE, 0.5) == pytest.approx(11.5)


def test_rows_are_charged_by_started_units() -> None:
    assert [write_units(size) for size in (0, 1, 1024, 1025)] == [1, 1, 1, 2]
    assert [read_units(size) for size in (0, 4096, 4097)] == [1, 1, 2]
