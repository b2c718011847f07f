"""Blocking code in threads of the simulation: one runs at a time, and it dies with its process."""

import asyncio
import threading
from functools import partial

import pytest

from logstore.errors import NotFound
from logstore.testing.blocking import TurnLock, wait_for
from logstore.testing.process_loop import Process, run_blocking, simulate


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def _fail() -> None:
    raise NotFound("nothing here")


def test_blocking_code_takes_virtual_time_and_gives_its_result() -> None:
    def call() -> float:
        wait_for(asyncio.sleep(3600))
        return _now_s()

    async def main() -> float:
        return await run_blocking(call)

    assert simulate(main()) == 3600


def test_errors_pass_both_ways() -> None:
    def call() -> None:
        with pytest.raises(NotFound):
            wait_for(_fail())
        raise ValueError("mine")

    async def main() -> None:
        with pytest.raises(ValueError, match="mine"):
            await run_blocking(call)

    simulate(main())


def test_calls_interleave_where_they_wait_and_nowhere_else() -> None:
    messages: list[str] = []

    def call(name: str) -> None:
        for number in range(2):
            messages.append(f"{name}{number}")
            wait_for(asyncio.sleep(1))

    async def main() -> None:
        await asyncio.gather(*(run_blocking(partial(call, name)) for name in "ab"))

    simulate(main())
    assert messages == ["a0", "b0", "a1", "b1"]


def test_a_killed_process_never_resumes_its_threads_and_they_end_with_the_simulation() -> None:
    messages: list[str] = []

    def call() -> None:
        messages.append("begun")
        try:
            wait_for(asyncio.sleep(1))
            messages.append("resumed")
        finally:
            messages.append("unwound")

    async def main() -> None:
        process = Process("doomed")
        process.spawn(run_blocking(call))
        await asyncio.sleep(0.5)
        process.kill()
        await asyncio.sleep(10)
        assert messages == ["begun"]

    before = threading.active_count()
    simulate(main())
    assert messages == ["begun", "unwound"]
    assert threading.active_count() <= before


def test_who_waits_for_a_lock_lets_its_holder_go_on() -> None:
    lock = TurnLock()
    held: list[float] = []

    def call() -> None:
        with lock:
            wait_for(asyncio.sleep(1))
            held.append(_now_s())

    async def main() -> None:
        await asyncio.gather(run_blocking(call), asyncio.to_thread(call))

    simulate(main())
    assert held[0] == 1
    assert 2 <= held[1] < 2.01


def test_code_outside_such_a_thread_is_refused() -> None:
    with pytest.raises(AssertionError):
        wait_for(_fail())
