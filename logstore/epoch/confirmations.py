"""Waits until every live broker knows a change of topics, or can serve nothing any more.

    publish → version n → own catalog has n → all others, asked at once over the connections that
    brokers keep to each other; those that do not answer, by their rows, until they confirm

`logstore.protocol.topics.confirmation` decides. An idle cluster pays nothing; a change costs two
queries, and a message to each broker; while a broker does not answer, two queries a second.
Bounded: after `CONFIRM_S` the change stands, and is reported as not known everywhere.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count

from logstore.errors import LogstoreError, Retryable
from logstore.formats.broker_row import BrokerRow
from logstore.protocol.topics.confirmation import Confirmation, Unconfirmed, look_for_unconfirmed
from logstore.retry import pause_s
from logstore.runners.step_runner import StepRunner

CONFIRM_S = 60.0
ASK_S = 0.5
"""Then rows are looked at again: a broker that hangs answers nothing."""
PAUSE_FIRST_S, PAUSE_MAX_S = 0.2, 1.0
"""Between two looks: the first finds a broker that was slow, the later ones wait for a seal."""

Ask = Callable[[int, int, int], Awaitable[int | None]]
"""Broker, its epoch, version: have it read the feed; returns the version that it knows then, None
without an answer."""


class NotKnownEverywhere(Retryable):
    """A change was made, and some broker has not said in time that it knows it."""


class Confirmations:
    def __init__(
        self,
        runner: StepRunner,
        own_epoch: int,
        *,
        read_own: Callable[[int], Awaitable[int]],
    ) -> None:
        """`read_own` has this broker read the feed up to a version; returns what it knows then."""
        self.ask: Ask | None = None
        """Asks another broker; None: their rows alone are looked at."""
        self._runner = runner
        self._own_epoch = own_epoch
        self._read_own = read_own

    async def wait(self, version: int) -> None:
        """Return when every broker knows the feed up to `version`. Raises `NotKnownEverywhere`."""
        confirmation = Confirmation(version, self._own_epoch)
        try:
            async with asyncio.timeout(CONFIRM_S):
                looks = 0
                while await self._read_own(version) < version:
                    looks += 1
                    await self._pause(looks)
                await self._others(confirmation)
        except TimeoutError:
            raise NotKnownEverywhere(
                f"the change is made, but not every broker has said that it knows it: "
                f"feed_version={version} waited_s={CONFIRM_S:g}; `logstore doctor` names a broker "
                "that hangs"
            ) from None

    async def hint(self, version: int, brokers: Mapping[int, BrokerRow]) -> None:
        """Have other live `brokers` read the feed now, for what cannot wait for their next turn."""
        others = [
            Unconfirmed(broker, row.epoch, can_answer=row.says_feed)
            for broker, row in brokers.items()
            if row.epoch != self._own_epoch
        ]
        await self._ask_all(Confirmation(version, self._own_epoch), others)

    async def _others(self, confirmation: Confirmation) -> None:
        for looks in count(1):
            try:
                unconfirmed = await self._runner.run(look_for_unconfirmed(confirmation))
                await self._ask_all(confirmation, unconfirmed)
            except LogstoreError:
                pass  # the registry does not answer: look again
            if confirmation.is_complete:
                return
            await self._pause(looks)

    async def _ask_all(self, confirmation: Confirmation, unconfirmed: list[Unconfirmed]) -> None:
        ask = self.ask
        if ask is None:
            return
        asked = [one for one in unconfirmed if one.can_answer]
        version = confirmation.version

        async def ask_one(one: Unconfirmed) -> None:
            try:
                async with asyncio.timeout(ASK_S):
                    answer = await ask(one.broker, one.epoch, version)
            except (TimeoutError, LogstoreError):
                return
            if answer is not None:
                confirmation.answered(one.epoch, answer)

        async with asyncio.TaskGroup() as tasks:
            for one in asked:
                tasks.create_task(ask_one(one))

    async def _pause(self, looks: int) -> None:
        """Wait after so many looks (1, 2, …)."""
        wait_s = pause_s(looks, self._runner.rng, PAUSE_FIRST_S, PAUSE_MAX_S)
        await self._runner.clock.sleep_s(wait_s)
