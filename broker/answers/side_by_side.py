"""Look-ups of one request side by side, within a bound that all requests share.

Each look-up may wait for the store several times and unpack a batch, so the bound is one of memory
as well: requests take turns by look-up, in the order in which they ask.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def look_up_side_by_side(
    items: Iterable[T],
    look_up: Callable[[T], Awaitable[None]],
    turns: asyncio.Semaphore,
    *,
    at_once: int,
    timeout_s: float,
) -> list[T]:
    """Look every item up, at most `at_once` at a time; those that had no result in `timeout_s`.

    An error of a look-up ends the others and is raised.
    """
    left = dict(enumerate(items))
    waiting = iter(list(left.items()))

    async def take_turns() -> None:
        for number, item in waiting:
            async with turns:
                await look_up(item)
            del left[number]

    try:
        async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(left))):
                group.create_task(take_turns())
    except TimeoutError:
        return list(left.values())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return []
