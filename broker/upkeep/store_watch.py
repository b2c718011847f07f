"""Logs when the store accepts no puts for a while, and when it accepts them again.

A put is sent again until it is settled, and until then producers wait without a message. Single
failures are ordinary, so a line is logged only once nothing has been stored for a second.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from logstore.errors import AlreadyExists, Unavailable
from logstore.ports.clock import Clock
from logstore.ports.objects import Buffer, ObjectInfo, ObjectStore
from logstore.troubles import LastingTroubles
from logstore.wiring.open import OpenLog

REPORT_AFTER_S = 1.0
AGAIN_S = 60.0
REFUSED = "puts are refused"

logger = logging.getLogger(__name__)


class WatchedStore:
    """An `ObjectStore` that tells how its creates fare."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._troubles = LastingTroubles(after_s=REPORT_AFTER_S, again_s=AGAIN_S)

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        try:
            await self._store.create(key, parts)
        except AlreadyExists:
            self._worked()
            raise
        except Unavailable as error:
            self._failed(error)
            raise
        self._worked()

    async def get(self, key: str) -> bytes | memoryview:
        return await self._store.get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._store.get_range(key, start, length)

    async def delete(self, key: str) -> None:
        await self._store.delete(key)

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        return self._store.list(prefix)

    async def close(self) -> None:
        await self._store.close()

    def _failed(self, error: Unavailable) -> None:
        for_s = self._troubles.occurred(REFUSED, self._clock.monotonic_s())
        if for_s is not None:
            logger.warning("nothing could be stored for %.0f s, producers wait: %s", for_s, error)

    def _worked(self) -> None:
        for_s = self._troubles.ended(REFUSED, self._clock.monotonic_s())
        if for_s is not None:
            logger.warning("the store accepts puts again, after %.0f s", for_s)


def watch_store(opened: OpenLog, clock: Clock) -> OpenLog:
    runner = opened.runner
    watched = replace(runner, store=WatchedStore(runner.store, clock))
    return replace(opened, runner=watched)
