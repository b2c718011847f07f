"""Lists the keys of a store for `logstore restore`, which one throttled LIST does not end."""

from collections.abc import AsyncIterator

from logstore.errors import Unavailable
from logstore.protocol.chain.walk import ATTEMPTS_MAX
from logstore.retry import pause_s
from logstore.runners.step_runner import StepRunner


class RetryingKeys:
    """The keys below a prefix, in order, without keeping them.

    After an error that may pass the list is read again from its beginning, as a store has no other
    way to go on, and keys up to the last one that was given are passed over. Raises as the store
    does when `ATTEMPTS_MAX` attempts in a row brought no further key.
    """

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner

    async def below(self, prefix: str) -> AsyncIterator[str]:
        last, attempt = "", 0
        while True:
            try:
                async for info in self._runner.store.list(prefix):
                    if info.key > last:
                        last, attempt = info.key, 0
                        yield info.key
                return
            except Unavailable:
                attempt += 1
                if attempt == ATTEMPTS_MAX:
                    raise
                await self._runner.clock.sleep_s(pause_s(attempt, self._runner.rng))
