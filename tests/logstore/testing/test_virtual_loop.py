"""The virtual loop: time jumps, runs repeat, and what a real loop would hide is an error."""

import asyncio
import gc
import itertools
from collections.abc import Callable

import pytest

from logstore.ports.clock import Clock
from logstore.testing.virtual_loop import Deadlock, TimeLimit, VirtualClock, VirtualLoop, run

YEAR_S = 365 * 86_400.0


def test_a_year_passes_at_once() -> None:
    clock = VirtualClock()

    async def main() -> float:
        await clock.sleep_s(YEAR_S)
        return clock.monotonic_s()

    assert run(main(), limit_s=2 * YEAR_S) == pytest.approx(YEAR_S)


def test_every_run_begins_at_zero_seconds_and_at_the_epoch() -> None:
    clock: Clock = VirtualClock(epoch_ms=5_000)

    async def main() -> tuple[float, int]:
        return clock.monotonic_s(), clock.now_ms()

    assert run(main()) == run(main()) == (0.0, 5_000)


def test_ten_tenths_of_a_second_are_a_thousand_milliseconds() -> None:
    clock = VirtualClock(epoch_ms=0)

    async def main() -> int:
        for _ in range(10):
            await clock.sleep_s(0.1)
        return clock.now_ms()

    assert run(main()) == 1_000


def test_timers_fire_in_the_order_of_their_times() -> None:
    clock = VirtualClock(epoch_ms=0)
    fired: list[tuple[str, int]] = []

    async def fire(name: str, after_s: float) -> None:
        await clock.sleep_s(after_s)
        fired.append((name, clock.now_ms()))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name, after_s in [("late", 3.0), ("soon", 0.001), ("between", 2.5)]:
                group.create_task(fire(name, after_s))

    run(main())

    assert fired == [("soon", 1), ("between", 2_500), ("late", 3_000)]


def test_a_timeout_ends_a_wait_that_nothing_else_would_end() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main()) == 30


def test_a_timer_fires_late_in_a_very_long_run() -> None:
    async def main() -> None:
        for _ in range(100):
            await asyncio.sleep(YEAR_S)
            await asyncio.sleep(0.003)

    run(main(), limit_s=101 * YEAR_S)


def test_a_deadlock_is_an_error_that_says_where_each_task_waits() -> None:
    async def waits_for_a_lock(lock: asyncio.Lock) -> None:
        await lock.acquire()

    async def main() -> None:
        lock = asyncio.Lock()
        await lock.acquire()
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_a_lock(lock), name="second")

    with pytest.raises(Deadlock, match=r"second: .*locks\.py:\d+ in Lock\.acquire") as caught:
        run(main())
    assert "TaskGroup.__aexit__" in str(caught.value)


def test_a_program_that_only_ticks_meets_the_time_limit() -> None:
    async def ticks() -> None:
        for _ in itertools.count():
            await asyncio.sleep(1)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ticks())
            await asyncio.Event().wait()

    with pytest.raises(TimeLimit, match="limit_s=100"):
        run(main(), limit_s=100)


def test_a_callback_that_raises_ends_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1, _raise_arithmetic_error)
        await asyncio.Event().wait()

    with pytest.raises(ArithmeticError, match="planted"):
        run(main())


def test_a_failure_in_the_last_step_of_a_run_is_not_lost() -> None:
    async def fails_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            _raise_arithmetic_error()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        left_running.append(loop.create_task(fails_when_cancelled()))
        await asyncio.sleep(1)

    left_running: list[asyncio.Task[None]] = []
    with pytest.raises(ArithmeticError, match="planted"):
        run(main())


def test_what_main_raises_comes_out() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        _raise_arithmetic_error()

    with pytest.raises(ArithmeticError, match="planted"):
        run(main())


def test_tasks_in_a_set_are_walked_in_the_order_they_were_made() -> None:
    """Where tasks lie in memory must not decide in which order a group cancels them."""
    cancelled: list[int] = []

    async def waits(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)

    async def main() -> None:
        async with asyncio.timeout(1), asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(waits(number))

    for _ in range(3):
        cancelled.clear()
        clutter = [object() for _ in range(1_000)]
        with pytest.raises(TimeoutError):
            run(main())
        assert cancelled == list(range(20)), len(clutter)


async def _opens_a_socket() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def _starts_a_thread() -> None:
    await asyncio.to_thread(gc.collect)


@pytest.mark.parametrize("leaves", [_opens_a_socket, _starts_a_thread])
def test_leaving_virtual_time_is_refused(leaves: Callable[[], "asyncio.Future[None]"]) -> None:
    async def main() -> None:
        await leaves()

    with pytest.raises((RuntimeError, NotImplementedError)):
        run(main())


def test_one_loop_can_be_run_in_steps() -> None:
    async def a_second() -> float:
        await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert [runner.run(a_second()), runner.run(a_second())] == [1, 2]


def _raise_arithmetic_error() -> None:
    raise ArithmeticError("planted")
