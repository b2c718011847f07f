"""Turns on the event loop: work about many items runs a few milliseconds at a time.

    turns.begin(call, slices)           the first slice now; the rest after others had their turn
    turns.put(call, slices)             all of them after others had their turn
    async for item in turns.share(items):   the same for a coroutine that loops over items
    result = await turns.finish(slices)     the same for a coroutine that needs the result

Between two slices the loop polls its sockets and runs all that is ready: heartbeats, commits,
other clients. One slice runs per pass of the loop, however many requests wait, and they take turns.
State that a slice has read may have changed before the next one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol, TypeVar

from broker.network.call import Call, Requester, guard
from logstore.slices import Slices

SLICE_S = 0.004

T = TypeVar("T")

Step = Callable[[], bool]
"""Works for one slice; whether there is more to do."""


class StepTimes(Protocol):
    def note(self, call: Call, took_s: float, /) -> None:
        """A step of `call` held the event loop for so long."""
        ...


class ClientGone(Exception):
    """The connection of a request was closed while it waited for a turn."""


class Turns:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        times: StepTimes,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        """`now_s` measures slices; None: the loop's clock."""
        self._loop = loop
        self.now_s = now_s or loop.time
        """Measures slices."""
        self._times = times
        self._waiting: deque[Step] = deque()
        self._is_due = False
        self.taken_count = 0
        """Slices that ran after a wait."""

    def begin(self, call: Call, slices: Slices[None]) -> None:
        """Work on `call`, which `slices` answers; its errors end the connection of `call` alone.

        Nothing more is done once that connection is closed. For Fetch and Produce, which make no
        task (`broker.requests` takes all others their way).
        """
        if self._advance(call, slices):
            self._wait(lambda: self._advance_later(call, slices))

    def put(self, call: Call, slices: Slices[None]) -> None:
        """As `begin`, with no slice now."""
        self._wait(lambda: self._advance_later(call, slices))

    def share(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items; waits for a turn where the ones before took a slice."""
        return Slicing(self, None).each(items)

    async def finish(self, slices: Slices[T]) -> T:
        """The result of `slices`; waits for a turn after each slice."""
        return await Slicing(self, None).finish(slices)

    def _advance_later(self, call: Call, slices: Slices[None]) -> bool:
        began_s = self.now_s()
        has_more = self._advance(call, slices)
        self._times.note(call, self.now_s() - began_s)
        return has_more

    def _advance(self, call: Call, slices: Slices[None]) -> bool:
        if call.connection.is_closed:
            slices.close()
            return False
        has_more = False

        def work() -> None:
            nonlocal has_more
            end_s = self.now_s() + SLICE_S
            for _ in slices:
                if self.now_s() >= end_s:
                    has_more = True
                    return

        guard(call, work)
        return has_more

    async def turn(self) -> None:
        """Wait until others had their turn."""
        turn: asyncio.Future[None] = self._loop.create_future()

        def step() -> bool:
            if not turn.done():
                turn.set_result(None)
            return False

        self._wait(step)
        await turn

    def _wait(self, step: Step) -> None:
        self._waiting.append(step)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        step = self._waiting.popleft()
        self.taken_count += 1
        if step():
            self._waiting.append(step)
        self._schedule()


class Slicing:
    """The slices of one piece of work, over all its loops and all that it finishes.

    With a `connection`, it ends by `ClientGone` at its next turn once that is closed.
    """

    __slots__ = ("_connection", "_end_s", "_turns")

    def __init__(self, turns: Turns, connection: Requester | None) -> None:
        self._turns = turns
        self._connection = connection
        self._end_s = turns.now_s() + SLICE_S

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items; waits for a turn where a slice is over."""
        now_s = self._turns.now_s
        for item in items:
            if now_s() >= self._end_s:
                await self._turn()
            yield item

    async def finish(self, slices: Slices[T]) -> T:
        """The result of `slices`; waits for a turn where a slice is over."""
        now_s = self._turns.now_s
        try:
            while True:
                try:
                    next(slices)
                except StopIteration as end:
                    result: T = end.value
                    return result
                if now_s() >= self._end_s:
                    await self._turn()
        finally:
            slices.close()

    async def _turn(self) -> None:
        await self._turns.turn()
        if self._connection is not None and self._connection.is_closed:
            raise ClientGone
        self._end_s = self._turns.now_s() + SLICE_S
