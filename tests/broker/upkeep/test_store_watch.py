"""A store that takes nothing is reported after a while, once a minute, and when it is over."""

from collections.abc import Sequence
from contextlib import suppress

import pytest

from broker.upkeep.store_watch import WatchedStore
from logstore.errors import AlreadyExists, LogstoreError, OutcomeUnknown, Retryable
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.objects import Buffer
from logstore.testing.virtual_loop import VirtualClock, run

FULL = Retryable("no room to create")


class Fated(MemoryStore):
    """Fails a create with the next error given, if there is one."""

    def __init__(self) -> None:
        super().__init__(MemoryObjects(VirtualClock()))
        self.errors: list[LogstoreError] = []

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        await super().create(key, parts)


def reported(errors: Sequence[LogstoreError], caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is reported while creates meet `errors`, one each half second, and then succeed."""

    async def main() -> None:
        clock, fated = VirtualClock(), Fated()
        store = WatchedStore(fated, clock)
        fated.errors += errors
        for number in range(len(errors) + 2):
            with suppress(LogstoreError):
                await store.create(f"key/{number}", [b"data"])
            await clock.sleep_s(0.5)

    run(main())
    return [record.getMessage() for record in caplog.records]


def test_a_failure_that_passes_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert reported([FULL, OutcomeUnknown("time-out")], caplog) == []


def test_a_store_that_accepts_nothing_is_reported_with_the_reason_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert reported([FULL] * 5, caplog) == [
        "nothing could be stored for 1 s, producers wait: no room to create",
        "the store accepts puts again, after 2 s",
    ]


def test_it_is_reported_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    lines = reported([FULL] * 300, caplog)

    assert [line for line in lines if line.startswith("nothing")] == [
        f"nothing could be stored for {for_s} s, producers wait: no room to create"
        for for_s in (1, 61, 121)
    ]


def test_a_key_that_is_taken_shows_that_the_store_works(caplog: pytest.LogCaptureFixture) -> None:
    errors = [FULL, FULL, AlreadyExists("taken")] * 5

    assert reported(errors, caplog) == []


def test_everything_else_goes_through() -> None:
    async def main() -> list[object]:
        store = WatchedStore(Fated(), VirtualClock())
        await store.create("a/b", [b"da", b"ta"])
        found: list[object] = [await store.get("a/b"), await store.get_range("a/b", 1, 2)]
        found += [info.key async for info in store.list("a/")]
        await store.delete("a/b")
        found += [info.key async for info in store.list("a/")]
        await store.close()
        return found

    assert run(main()) == [b"data", b"at", "a/b"]
