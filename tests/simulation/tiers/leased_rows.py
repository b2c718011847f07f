"""`LeasedRows` of a run of compaction, on the loop of the simulation in place of its own.

What it awaits is the product's; here it is awaited by the simulated process that runs the code.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from logstore.compaction.leased_rows import CALL_TIMEOUT_S, GIVE_UP_S, LeasedRows
from logstore.errors import Retryable
from logstore.testing.blocking import wait_for
from logstore.testing.process_loop import PROCESS

T = TypeVar("T")


class SimulatedLeasedRows(LeasedRows):
    def _start(self) -> None:
        self._life = wait_for(self._begin())

    async def _begin(self) -> "asyncio.Task[None]":
        life = PROCESS.get().spawn(self._keep())
        while self._log is None and not life.done():
            await self._clock.sleep_s(0.001)
        return life

    async def _keep(self) -> None:
        try:
            await self._live()
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            self._failure = error

    def close(self) -> None:
        wait_for(self._end())

    async def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
        await asyncio.wait([self._life], timeout=GIVE_UP_S * 2)

    def _call(self, coroutine: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        async def answer() -> T:
            async with asyncio.timeout(timeout_s):
                return await coroutine

        try:
            return wait_for(answer())
        except TimeoutError as error:
            raise Retryable(f"the registry does not answer: timeout_s={timeout_s}") from error
        finally:
            coroutine.close()  # where it was never begun
