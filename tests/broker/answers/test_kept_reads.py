"""Reads that are kept: made once, however many ask, and no more of them than are allowed."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from broker.answers.kept_reads import KeptReads
from logstore.errors import Corrupt
from logstore.runners.step_runner import outcome_of


class Reads:
    """Numbers as they are asked for; each read waits until it is let go."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.let_go = asyncio.Event()
        self._begun: asyncio.Queue[int] = asyncio.Queue()

    async def one_begins(self) -> None:
        await self._begun.get()

    async def read(self, key: int) -> int:
        self.begun.append(key)
        self._begun.put_nowait(key)
        await self.let_go.wait()
        if key < 0:
            raise Corrupt("negative")
        return key


def kept_reads(reads: Reads, *, count_max: int = 2, weight_max: int = 100) -> KeptReads[int, int]:
    return KeptReads(reads.read, lambda value: value, count_max=count_max, weight_max=weight_max)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


def test_many_that_ask_are_answered_by_one_read() -> None:
    async def story() -> None:
        reads = Reads()
        kept = kept_reads(reads)
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(kept.get(7)) for _ in range(5)]
            await reads.one_begins()
            reads.let_go.set()
        assert [one.result() for one in asked] == [7] * 5
        assert await kept.get(7) == 7
        assert reads.begun == [7]

    run(story())


def test_no_more_are_kept_than_count_and_weight_allow() -> None:
    async def story() -> None:
        reads = Reads()
        reads.let_go.set()
        kept = kept_reads(reads, count_max=2, weight_max=100)
        for key in (1, 2, 1, 3, 1):
            await kept.get(key)
        assert reads.begun == [1, 2, 3], "the one that was used last stays"
        assert (len(kept), kept.weight) == (2, 4)
        await kept.get(99)
        assert (len(kept), kept.weight) == (2, 100)
        await kept.get(500)
        assert (len(kept), kept.weight) == (1, 500), "one alone may be heavier"
        await kept.get(4)
        assert (len(kept), kept.weight) == (1, 4)

    run(story())


def test_an_error_is_raised_to_all_that_wait_and_is_not_kept() -> None:
    async def story() -> None:
        reads = Reads()
        kept = kept_reads(reads)
        async with asyncio.TaskGroup() as tasks:
            both = [tasks.create_task(outcome_of(kept.get(-1))) for _ in range(2)]
            await reads.one_begins()
            reads.let_go.set()
        assert [type(one.result()) for one in both] == [Corrupt, Corrupt]
        with pytest.raises(Corrupt):
            await kept.get(-1)
        assert reads.begun == [-1, -1]

    run(story())


def test_where_the_reading_caller_is_cancelled_another_reads() -> None:
    async def story() -> None:
        reads = Reads()
        kept = kept_reads(reads)
        async with asyncio.TaskGroup() as tasks:
            first, second = (tasks.create_task(kept.get(1)) for _ in range(2))
            await reads.one_begins()
            first.cancel()
            await reads.one_begins()
            reads.let_go.set()
        assert (first.cancelled(), second.result()) == (True, 1)

    run(story())
