"""Each attempt at a store is measured, under the way in which it ended."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from logstore.errors import (
    AlreadyExists,
    ConditionFailed,
    Corrupt,
    Denied,
    NotFound,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.objects.timed import TimedStore
from logstore.ports.clock import SystemClock
from logstore.ports.objects import ObjectInfo
from logstore.request_times import RequestTimes, outcome_of
from logstore.testing.virtual_loop import VirtualClock, run


class SlowStore(MemoryStore):
    """Every request takes a second; each key of a list another one."""

    async def get(self, key: str) -> bytes:
        await VirtualClock().sleep_s(1)
        return await super().get(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async for info in super().list(prefix):
            await VirtualClock().sleep_s(1)
            yield info


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (Throttled(""), "throttled"),
        (Retryable(""), "retryable"),
        (OutcomeUnknown(""), "unknown"),
        (Denied(""), "denied"),
        (NotFound(""), "absent"),
        (AlreadyExists(""), "exists"),
        (ConditionFailed("", None), "condition"),
        (Corrupt(""), "failed"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
def test_each_outcome_has_a_label_of_its_own(error: BaseException | None, outcome: str) -> None:
    assert outcome_of(error) == outcome


def test_the_time_of_a_request_goes_to_its_kind_and_outcome() -> None:
    times = RequestTimes()

    async def scenario() -> None:
        store = TimedStore(SlowStore(MemoryObjects(SystemClock())), times, VirtualClock())
        await store.create("a", [b"1"])
        await store.create("b", [b"1"])
        await store.get("a")
        with pytest.raises(NotFound):
            await store.get("missing")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await store.get("a")
        async for _ in store.list(""):
            await VirtualClock().sleep_s(10)  # its reader works

    run(scenario())
    seconds = {key: histogram.total for key, histogram in times.by_kind.items()}
    assert seconds == {
        ("create", "ok"): 0,
        ("get", "ok"): 1,
        ("get", "absent"): 1,
        ("get", "cancelled"): 0.5,
        ("list", "ok"): 1,
    }
