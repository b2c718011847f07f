"""Receive buffers of a burst do not stay; those that are in use do."""

import asyncio
from collections.abc import Awaitable, Callable

from broker.network.buffers import SCRATCH_BYTES, SURPLUS_BYTES, BufferPool
from broker.network.spare_buffers import KEPT_S, STEP_BYTES, STEP_S, SpareBuffers
from broker.network.timers import TICK_S, Timers
from logstore.testing.virtual_loop import VirtualClock, run

BURST = 3 * STEP_BYTES // SCRATCH_BYTES
A_LOOK_S = KEPT_S + TICK_S


def play(story: Callable[[BufferPool, list[int]], Awaitable[None]]) -> None:
    """`story` gets a pool, and what it kept whenever memory was given to the system."""

    async def main() -> None:
        pool, given = BufferPool(), list[int]()
        timers = Timers(asyncio.get_running_loop())
        SpareBuffers(pool, timers, lambda: given.append(pool.kept_bytes))
        await story(pool, given)
        timers.close()

    run(main())


def burst(pool: BufferPool, count: int) -> None:
    for buffer in [pool.take(SCRATCH_BYTES) for _ in range(count)]:
        pool.give_back(buffer)


async def pause(seconds: float) -> None:
    await VirtualClock().sleep_s(seconds)


def test_buffers_of_a_burst_are_given_back_in_steps() -> None:
    async def story(pool: BufferPool, given: list[int]) -> None:
        burst(pool, BURST)
        await pause(A_LOOK_S)
        assert (pool.kept_bytes, given) == (3 * STEP_BYTES, []), "the burst may be going on"
        await pause(A_LOOK_S + 3 * (STEP_S + TICK_S))

        assert given == [2 * STEP_BYTES, STEP_BYTES, 0]

    play(story)


def test_buffers_that_are_used_again_are_kept() -> None:
    async def story(pool: BufferPool, given: list[int]) -> None:
        burst(pool, BURST)
        for _ in range(100):
            burst(pool, BURST // 3)
            await pause(KEPT_S / 10)

        assert pool.kept_bytes == STEP_BYTES
        assert given == [2 * STEP_BYTES, STEP_BYTES]

    play(story)


def test_nothing_is_looked_at_while_little_is_kept() -> None:
    async def story(pool: BufferPool, given: list[int]) -> None:
        burst(pool, SURPLUS_BYTES // SCRATCH_BYTES)
        await pause(10 * KEPT_S)

        assert (pool.kept_bytes, given) == (SURPLUS_BYTES, [])

    play(story)
