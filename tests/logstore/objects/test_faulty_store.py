"""A store that misbehaves on purpose does what it says, and the same for the same seed."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from random import Random

import pytest

from logstore.errors import (
    AlreadyExists,
    LogstoreError,
    NotFound,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.objects.fault_draws import Faults, StoreFaults
from logstore.objects.faulty import FaultyBlockingStore, FaultyStore
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.testing.virtual_loop import VirtualClock

DATA = b"0123456789"


class HandClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    async def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds

    def block_s(self, seconds: float) -> None:
        self.now_s += seconds


class World:
    def __init__(self, settings: StoreFaults, seed: int = 1) -> None:
        self.clock = HandClock()
        self.objects = MemoryObjects(self.clock)
        self.faults = Faults(settings, Random(seed), self.clock)
        self.store = FaultyBlockingStore(self.objects, self.faults, self.clock.block_s)

    def is_there(self, key: str) -> bool:
        try:
            self.objects.get(key)
        except NotFound:
            return False
        return True


@pytest.mark.parametrize(
    ("settings", "error", "happened"),
    [
        (StoreFaults(put_lost=1), OutcomeUnknown, False),
        (StoreFaults(put_answer_lost=1), OutcomeUnknown, True),
        (StoreFaults(put_late=1), OutcomeUnknown, False),
        (StoreFaults(put_conflict=1), AlreadyExists, False),
        (StoreFaults(put_doubled=1), AlreadyExists, True),
        (StoreFaults(throttled=1), Throttled, False),
    ],
)
def test_a_create_comes_to_what_was_drawn(
    settings: StoreFaults, error: type[LogstoreError], happened: bool
) -> None:
    world = World(settings)
    with pytest.raises(error):
        world.store.create("k", [DATA])
    assert world.is_there("k") is happened
    assert world.faults.seen.total() == 1


def test_a_late_create_happens_within_its_time_even_if_the_key_was_taken() -> None:
    world = World(StoreFaults(put_late=1, late_max_s=30))
    for key in ("a", "b"):
        with pytest.raises(OutcomeUnknown):
            world.store.create(key, [DATA])
    world.faults.faults = StoreFaults()
    world.store.create("b", [b"another's"])
    world.clock.now_s += 30
    world.store.delete("x")
    assert world.objects.get("a") == DATA
    assert world.objects.get("b") == b"another's"
    assert world.faults.seen["late put landed"] == 1
    assert world.faults.seen["late put met an object"] == 1


def test_what_is_late_when_the_store_closes_happens_then() -> None:
    world = World(StoreFaults(put_late=1))
    with pytest.raises(OutcomeUnknown):
        world.store.create("k", [DATA])
    world.store.close()
    assert world.is_there("k")


def test_a_read_is_short_flipped_throttled_or_fails() -> None:
    world = World(StoreFaults())
    world.objects.create("k", [DATA])
    world.faults.faults = StoreFaults(get_short=1)
    assert all(len(world.store.get("k")) < len(DATA) for _ in range(10))
    world.faults.faults = StoreFaults(get_flipped=1)
    for _ in range(10):
        wrong = int.from_bytes(world.store.get_range("k", 0, 10), "big") ^ int.from_bytes(
            DATA, "big"
        )
        assert wrong.bit_count() == 1
    world.faults.faults = StoreFaults(throttled=1)
    with pytest.raises(Throttled):
        world.store.get("k")
    world.faults.faults = StoreFaults(get_failed=1)
    failed = Counter(type(_error(lambda: world.store.get("k"))) for _ in range(20))
    assert set(failed) == {OutcomeUnknown, Retryable}


def test_a_slow_store_takes_its_time() -> None:
    world = World(StoreFaults(slow=1, slow_max_s=5))
    for number in range(10):
        world.store.create(f"k/{number}", [DATA])
    assert 5 < world.clock.now_s < 50


def _error(call: Callable[[], object]) -> LogstoreError:
    with pytest.raises(LogstoreError) as raised:
        call()
    return raised.value


def play(seed: int) -> list[str]:
    chances = {one.name: 0.1 for one in fields(StoreFaults) if not one.name.endswith("_s")}
    world = World(replace(StoreFaults(), **chances), seed)
    reported = []
    for number in range(100):
        try:
            world.store.create(f"k/{number % 50}", [DATA])
            reported.append(world.store.get(f"k/{number % 50}").hex())
        except LogstoreError as error:
            reported.append(repr(error))
        world.clock.now_s += 1
    return [*reported, repr(sorted(world.faults.seen.items())), repr(world.clock.now_s)]


def test_a_seed_plays_the_same_twice() -> None:
    assert play(7) == play(7)
    assert play(7) != play(8)


async def test_the_asynchronous_store_does_as_the_blocking_one() -> None:
    clock = VirtualClock()
    objects = MemoryObjects(clock)
    faults = Faults(StoreFaults(put_late=0.5, put_answer_lost=0.5), Random(3), clock)
    store = FaultyStore(MemoryStore(objects), faults, clock)
    for number in range(20):
        with pytest.raises(OutcomeUnknown):
            await store.create(f"k/{number:02}", [DATA])
    assert len(list(objects.list(""))) == faults.seen["put answer lost"] < 20
    await clock.sleep_s(30)
    assert len([info async for info in store.list("")]) == 20
