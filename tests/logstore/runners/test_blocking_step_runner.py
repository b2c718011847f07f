"""Blocking steps side by side: requests overlap at every depth, steps never do."""

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from logstore.errors import Unavailable
from logstore.objects.memory import MemoryObjects
from logstore.ports.clock import SystemClock
from logstore.protocol.steps import Gather, Get, Steps, get, results_of
from logstore.runners.step_runner import BlockingStepRunner

WAIT_S = 30.0


class Meeting(MemoryObjects):
    """Each GET waits until as many as the barrier wants are under way."""

    def __init__(self, count: int) -> None:
        super().__init__(SystemClock())
        self._barrier = Barrier(count)

    def get(self, key: str) -> bytes:
        self._barrier.wait(WAIT_S)
        return super().get(key)


@pytest.fixture
def pools() -> Iterator[list[ThreadPoolExecutor]]:
    made = [ThreadPoolExecutor(2), ThreadPoolExecutor(4)]
    yield made
    for pool in made:
        pool.shutdown()


def two(keys: list[str]) -> Steps[list[bytes | memoryview]]:
    outcomes = yield Gather([get(key) for key in keys])
    return results_of(outcomes)


def test_gathers_in_a_gather_overlap_and_wait_for_no_thread_of_their_own(
    pools: list[ThreadPoolExecutor],
) -> None:
    store = Meeting(4)
    for key in "abcd":
        store.create(key, [key.encode()])

    def all_four() -> Steps[Any]:
        outcomes = yield Gather([two(["a", "b"]), two(["c", "d"])])
        return results_of(outcomes)

    runner = BlockingStepRunner(store, None, random.Random(0), pools)

    assert runner.run(all_four()) == [[b"a", b"b"], [b"c", b"d"]]


def test_below_the_last_pool_steps_run_one_after_the_other(
    pools: list[ThreadPoolExecutor],
) -> None:
    store = MemoryObjects(SystemClock())
    for key in "abcd":
        store.create(key, [key.encode()])

    def nested(depth: int) -> Steps[Any]:
        if depth == 0:
            return (yield from two(["a", "b"]))
        outcomes = yield Gather([nested(depth - 1), nested(depth - 1)])
        return results_of(outcomes)

    runner = BlockingStepRunner(store, None, random.Random(0), pools)

    assert runner.run(nested(3)) == [[[[b"a", b"b"]] * 2] * 2] * 2


@pytest.fixture
def threads_that_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_that_change_often")
def test_steps_of_one_gather_never_run_at_the_same_time(pools: list[ThreadPoolExecutor]) -> None:
    store = Meeting(4)
    store.create("a", [b"a"])
    running: list[int] = []
    most = 0

    def step(number: int) -> Steps[None]:
        nonlocal most
        for _ in range(3):
            yield Get("a")  # all four get their answer at the same time
            running.append(number)
            for _ in range(100):
                most = max(most, len(running))
                sum(range(2_000))
            running.remove(number)

    def all_steps() -> Steps[None]:
        outcomes = yield Gather([step(number) for number in range(4)])
        results_of(outcomes)

    BlockingStepRunner(store, None, random.Random(0), pools[1:]).run(all_steps())

    assert most == 1


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    ended = []

    def step(number: int) -> Steps[int]:
        yield Get("a")
        ended.append(number)
        if number == 1:
            raise Unavailable(f"number={number}")
        return number

    def all_steps() -> Steps[list[int]]:
        outcomes = yield Gather([step(number) for number in range(3)])
        return results_of(outcomes)

    store = MemoryObjects(SystemClock())
    store.create("a", [b"a"])
    with pytest.raises(Unavailable, match="number=1"):
        BlockingStepRunner(store, None, random.Random(0)).run(all_steps())
    assert ended == [0, 1, 2]
