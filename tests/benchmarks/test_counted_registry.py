"""The counting registry: every call once, in the units of DynamoDB, whatever its end."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.peers.counted_registry import CountedRegistry
from benchmarks.peers.counts import Counts, write_counts
from logstore.errors import ConditionFailed
from logstore.objects.metered import StoreCounts
from logstore.ports.registry import RowAbsent
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.timed import row_bytes
from logstore.testing.virtual_loop import VirtualClock


def counted() -> CountedRegistry:
    rng = random.Random(0)
    ids = iter(map(str, range(1000)))
    return CountedRegistry(RetryingRegistry(MemoryRows(), lambda: next(ids), VirtualClock(), rng))


async def test_every_kind_of_call_is_counted_and_passed_on() -> None:
    registry = counted()
    await registry.put_if("a", "1", {"value": "x"}, RowAbsent())
    await registry.update_if("a", "1", {"value": "y"})
    found = await registry.get("a", "1")
    assert found is not None
    assert found["value"] == "y"
    assert len(await registry.query("a")) == 1
    await registry.delete_if("a", "1")
    assert await registry.get("a", "1") is None

    expected = {"put": 1, "update": 1, "get": 2, "query": 1, "delete": 1}
    assert registry.counts.calls == expected
    assert registry.counts.units == expected


async def test_a_failed_condition_is_billed_like_a_write() -> None:
    registry = counted()
    await registry.put_if("a", "1", {"value": "x"})
    with pytest.raises(ConditionFailed):
        await registry.put_if("a", "1", {"value": "x" * 1024}, RowAbsent())

    assert registry.counts.calls == {"put": 2}
    assert registry.counts.units == {"put": 3}


async def test_a_query_is_billed_by_all_its_rows_together() -> None:
    registry = counted()
    for number in range(40):
        await registry.put_if("a", f"{number}", {"value": "x" * 256})
    await registry.query("a")
    await registry.query("b")

    assert registry.counts.units["query"] == 3 + 1


def test_a_row_is_as_long_as_its_names_and_values() -> None:
    assert row_bytes("ab", "cde", {}) == 2 + 2 + 2 + 3
    assert row_bytes("", "", {"name": "é", "data": b"123", "number": -12345}) == 4 + 6 + 7 + 10


async def test_counts_written_by_a_broker_are_read_as_what_was_asked_since(tmp_path: Path) -> None:
    registry, store, path = counted(), StoreCounts(), tmp_path / "counts.json"
    found = []
    for _ in range(2):
        store.add("get", calls=3, moved_bytes=100, errors=0)
        await registry.get("a", "1")
        write_counts(path, store, registry.counts)
        values = json.loads(path.read_text())
        found.append(Counts(**{name: Counter(counts) for name, counts in values.items()}))

    since = found[1].since(found[0])
    assert since.store == {"get": 3}
    assert since.store_bytes == {"get": 100}
    assert since.registry == since.units == {"get": 1}
