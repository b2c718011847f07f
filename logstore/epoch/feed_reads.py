"""Reads of the change feed that were asked for, beside those of the watch's own turns.

Callers share reads, and those that ask for what the feed does not have are paced: whatever is
asked, the registry is read no more than some twenty times a second for it.
"""

import asyncio
from collections.abc import Awaitable, Callable

from logstore.ports.clock import Clock

PAUSE_S = 0.05


class FeedReads:
    def __init__(
        self,
        clock: Clock,
        *,
        version: Callable[[], int],
        looked: Callable[[], Awaitable[None]],
    ) -> None:
        """`version` of the feed is known and applied here; `looked` waits for a turn of the watch
        that begins after the call, and returns at once when the watch has ended.
        """
        self._clock = clock
        self._version = version
        self._looked = looked
        self._turn = asyncio.Lock()

    async def read(self, version: int) -> int:
        """Read the feed, unless `version` of it is known. Returns the version known then."""
        async with self._turn:
            if self._version() < version:
                await self._looked()
                if self._version() < version:
                    await self._clock.sleep_s(PAUSE_S)
        return self._version()
