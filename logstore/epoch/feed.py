"""This broker and the change feed: it publishes changes, reads those of others, has them confirmed.

Callers share reads, and those that ask for what the feed does not have are paced: whatever is
asked, the registry is read no more than some twenty times a second for it.
"""

import asyncio
from collections.abc import Sequence

from logstore.epoch.catalog import Catalog
from logstore.epoch.confirmations import Confirmations
from logstore.epoch.live_brokers import LiveBrokers
from logstore.epoch.watch import Watch
from logstore.formats.feed_row import FeedChange
from logstore.protocol.rows.changes import publish
from logstore.runners.step_runner import StepRunner, outcome_of

PAUSE_S = 0.05


class Feed:
    def __init__(
        self,
        runner: StepRunner,
        catalog: Catalog,
        cluster: LiveBrokers,
        watch: Watch,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.confirmations = Confirmations(runner, catalog.chain, read_own=self.read)
        self._runner = runner
        self._catalog = catalog
        self._cluster = cluster
        self._watch = watch
        self._tasks = tasks
        self._turn = asyncio.Lock()

    async def publish(
        self, changes: Sequence[FeedChange], *, is_urgent: bool = False
    ) -> int | None:
        """Publish changed rows to every broker. A hint: a failure is not reported.

        `is_urgent`: others are asked to read them now, and not at their next turn. Returns the
        version of the feed that has them; None where it could not be written.
        """
        if not changes:
            return None
        version = await outcome_of(self._runner.run(publish(changes)))
        self._watch.look_again()
        if not isinstance(version, int):
            return None
        if is_urgent:
            hint = self.confirmations.hint(version, self._cluster.live_brokers())
            self._tasks.create_task(hint)
        return version

    async def confirmed(self, version: int) -> None:
        """Return when every broker knows the feed up to `version`. Raises `NotKnownEverywhere`."""
        await self.confirmations.wait(version)

    async def looked(self) -> None:
        """Return when the brokers' rows and the feed were read by a turn that began after this."""
        await self._watch.looked()

    async def read(self, version: int) -> int:
        """Read the feed, unless `version` of it is known. Returns the version known then."""
        async with self._turn:
            if self._catalog.version < version:
                await self._watch.looked()
                if self._catalog.version < version:
                    await self._runner.clock.sleep_s(PAUSE_S)
        return self._catalog.version
