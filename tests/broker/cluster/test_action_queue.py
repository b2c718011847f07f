"""The desk: one task per action at a time, failures put off, bounded in number."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from broker.cluster.action_queue import TASK_S_MAX, TASKS_MAX, ActionQueue
from logstore.errors import Retryable
from logstore.testing.virtual_loop import VirtualClock, run


class _Over(Exception): ...


class Played:
    def __init__(self) -> None:
        self.failures = 0
        self.may_act = True

    def count(self) -> None:
        self.failures += 1


def play(story: Callable[[ActionQueue, Played], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        played = Played()
        try:
            async with asyncio.TaskGroup() as tasks:
                queue = ActionQueue(tasks, VirtualClock(), lambda: played.may_act, played.count)
                await story(queue, played)
                raise _Over
        except* _Over:
            pass

    run(main())


def test_an_action_under_way_is_not_begun_again() -> None:
    async def story(queue: ActionQueue, played: Played) -> None:
        go_on = asyncio.Event()

        async def work() -> None:
            await go_on.wait()

        assert queue.start("a", work)
        assert not queue.start("a", work)
        assert queue.start("b", work)
        go_on.set()
        await VirtualClock().sleep_s(0.1)

        assert queue.start("a", work)

    play(story)


def test_what_was_just_done_waits_before_it_is_repeated() -> None:
    async def story(queue: ActionQueue, played: Played) -> None:
        async def work() -> None:
            pass

        assert queue.start("a", work, again_s=10.0)
        await VirtualClock().sleep_s(9.9)
        assert not queue.start("a", work)
        await VirtualClock().sleep_s(0.2)

        assert queue.start("a", work)

    play(story)


def test_what_fails_is_tried_again_later_and_later() -> None:
    async def story(queue: ActionQueue, played: Played) -> None:
        async def fail() -> None:
            raise Retryable("the registry is away")

        begun = []
        for tenth in range(1200):
            if queue.start("a", fail):
                begun.append(tenth)
            await VirtualClock().sleep_s(0.1)

        gaps = [after - before for before, after in itertools.pairwise(begun)]
        assert gaps == sorted(gaps)
        assert 10 <= gaps[0] <= 11
        assert played.failures == len(begun) == 7

    play(story)


def test_what_takes_too_long_is_ended_and_counted() -> None:
    async def story(queue: ActionQueue, played: Played) -> None:
        async def hang() -> None:
            await asyncio.Event().wait()

        queue.start("a", hang)
        await VirtualClock().sleep_s(TASK_S_MAX + 1)

        assert queue.is_idle
        assert played.failures == 1

    play(story)


def test_few_tasks_run_at_once_and_those_whose_time_is_over_do_nothing() -> None:
    async def story(queue: ActionQueue, played: Played) -> None:
        running = 0

        async def work() -> None:
            nonlocal running
            running += 1
            await VirtualClock().sleep_s(1)

        for number in range(2 * TASKS_MAX):
            queue.start(number, work)
        await VirtualClock().sleep_s(0.5)
        assert running == TASKS_MAX
        played.may_act = False
        await VirtualClock().sleep_s(5)

        assert running == TASKS_MAX
        assert queue.is_idle

    play(story)
