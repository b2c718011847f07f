"""Lets requests wait until a change that they asked for has happened.

Other brokers change rows of topics: a partition is released, then led elsewhere. A waiting request
checks its condition again at every change, until its own time is over.
"""

import asyncio
from collections.abc import Callable


class TopicWatch:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next_change: asyncio.Future[None] | None = None

    def changed(self) -> None:
        """Some topic changed: every waiting request checks its condition again."""
        if self._next_change is not None:
            self._next_change.set_result(None)
            self._next_change = None

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Whether `holds` came true in time."""
        deadline_s = self._loop.time() + timeout_s
        while not holds():
            left_s = deadline_s - self._loop.time()
            if left_s <= 0:
                return False
            if self._next_change is None:
                self._next_change = self._loop.create_future()
            await asyncio.wait([self._next_change], timeout=left_s)
        return True
