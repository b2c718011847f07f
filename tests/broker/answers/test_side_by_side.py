"""Look-ups of a request run side by side, within a bound that requests share."""

import asyncio

import pytest

from broker.answers.side_by_side import look_up_side_by_side
from logstore.errors import Retryable


class Reads:
    """Reads that go on until they are let go; how many are under way, and were at most."""

    def __init__(self) -> None:
        self.under_way = 0
        self.most = 0
        self.ended: list[int] = []
        self.let_go = asyncio.Event()

    async def read(self, number: int) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.let_go.wait()
            self.ended.append(number)
        finally:
            self.under_way -= 1


async def look_up(reads: Reads, turns: asyncio.Semaphore, count: int = 100) -> list[int]:
    return await look_up_side_by_side(range(count), reads.read, turns, at_once=16, timeout_s=30.0)


async def settle() -> None:
    """Until nothing can go on: virtual time only moves when all tasks wait."""
    loop = asyncio.get_running_loop()
    waited = loop.create_future()
    loop.call_later(0.001, waited.set_result, None)
    await waited


async def test_as_many_as_allowed_are_read_at_once_and_each_once() -> None:
    reads = Reads()
    async with asyncio.TaskGroup() as tasks:
        late = tasks.create_task(look_up(reads, asyncio.Semaphore(64)))
        await settle()
        assert reads.under_way == 16
        reads.let_go.set()
    assert (late.result(), reads.most) == ([], 16)
    assert sorted(reads.ended) == list(range(100))


async def test_requests_share_the_bound_and_none_waits_for_all_of_another() -> None:
    reads, others, turns = Reads(), Reads(), asyncio.Semaphore(16)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(look_up(reads, turns))
        tasks.create_task(look_up(others, turns))
        await settle()
        assert (reads.under_way, others.under_way) == (16, 0)
        reads.let_go.set()
        await settle()
        assert others.under_way == 16
        assert len(reads.ended) < 100, "it has the turns that are left"
        others.let_go.set()
    assert len(reads.ended) == len(others.ended) == 100


async def test_what_had_no_time_is_named_and_leaves_its_turns() -> None:
    reads, turns = Reads(), asyncio.Semaphore(16)
    assert await look_up(reads, turns, 20) == list(range(20))
    assert reads.under_way == 0 and not turns.locked()


async def test_an_error_is_raised_as_it_is() -> None:
    async def fail(number: int) -> None:
        raise Retryable(f"number={number}")

    turns = asyncio.Semaphore(1)
    with pytest.raises(Retryable, match="number=0"):
        await look_up_side_by_side([0, 1], fail, turns, at_once=1, timeout_s=1.0)
