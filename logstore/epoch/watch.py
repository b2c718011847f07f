"""Watches the registry: the change feed, the brokers' rows, and now and then everything.

    every 0.25 s   one read of the change feed, and of the rows it names; every 0.05 s for a while
                   after a death, or while a broker drains or is to hand us something
    every 0.5 s    one query of all brokers; every 0.25 s while one of them seems silent
    every minute   all topics and partitions, since a hint may be lost with its writer

While the registry is unreachable the broker continues with its last view.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Protocol, TypeVar

from logstore.epoch.events import Events
from logstore.errors import LogstoreError
from logstore.formats.broker_row import BrokerRow
from logstore.protocol.rows.metadata import read_brokers
from logstore.protocol.rows.view import RegistryUpdate, read_everything, read_update
from logstore.protocol.steps import Steps, sliced
from logstore.runners.step_runner import StepRunner
from logstore.slices import Slices

FEED_S = 0.25
HURRIED_FEED_S = 0.05
HURRY_S = 3.0
BROKERS_S = 0.45
"""A little less than two turns of the feed, so that every second one reads them."""
EVERYTHING_S = 60.0
POLL_S_MAX = 3.0
"""A call that hangs longer is given up and repeated, or no change would be noticed."""
EVERYTHING_S_MAX = 30.0
READS_MAX = 3
"""Then brokers are read: liveness must be known however much we edit."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class KnownRows(Protocol):
    """A `Catalog`, as far as the watch needs it."""

    @property
    def version(self) -> int: ...

    @property
    def edit_count(self) -> int: ...

    def news(self, update: RegistryUpdate) -> Slices[RegistryUpdate]: ...


class WatchedBrokers(Protocol):
    """`LiveBrokers`, as far as the watch needs them."""

    @property
    def is_one_silent(self) -> bool: ...

    def observe(self, brokers: Mapping[int, BrokerRow]) -> None: ...


class Watch:
    """Reports to `events` the rows that are news. Unrest there has it read them more often."""

    def __init__(
        self, runner: StepRunner, catalog: KnownRows, cluster: WatchedBrokers, events: Events
    ) -> None:
        self._runner = runner
        self._catalog = catalog
        self._cluster = cluster
        self._events = events
        events.unrest.listen(lambda _: self.hurry())
        self._wake = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._is_over = False
        self._hurry_until_s = 0.0
        self._brokers_at_s = 0.0
        self._everything_at_s = 0.0

    def look_again(self) -> None:
        """Read the feed now."""
        self._wake.set()

    async def looked(self) -> None:
        """Wait for a turn that begins after this call, and reads brokers and feed if it can.

        At once when the watch has ended.
        """
        if self._is_over:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake.set()
        await waiter

    def hurry(self) -> None:
        """Read it often for a while. Repeated calls in that time make it no faster."""
        now_s = self._runner.clock.monotonic_s()
        if now_s >= self._hurry_until_s:
            self._wake.set()
        self._hurry_until_s = now_s + HURRY_S

    async def run(self, fenced: asyncio.Event) -> None:
        self._put_off_everything()
        while not fenced.is_set():
            with suppress(TimeoutError):
                is_hurried = self._runner.clock.monotonic_s() < self._hurry_until_s
                async with asyncio.timeout(HURRIED_FEED_S if is_hurried else FEED_S):
                    await self._wake.wait()
            self._wake.clear()
            waiters, self._waiters = self._waiters, []
            try:
                await self._look(are_brokers_wanted=bool(waiters))
            except LogstoreError as error:
                logger.debug("registry cannot be read: %s", error)
            except TimeoutError:
                logger.debug("registry has not answered in time")
                # It may have been much to read.
                self._everything_at_s = self._runner.clock.monotonic_s()
            _release(waiters)
        self._is_over = True
        _release(self._waiters)

    async def _look(self, *, are_brokers_wanted: bool) -> None:
        clock = self._runner.clock
        is_due = clock.monotonic_s() >= self._brokers_at_s or self._cluster.is_one_silent
        if is_due or are_brokers_wanted:
            self._brokers_at_s = clock.monotonic_s() + BROKERS_S
            self._cluster.observe(await self._in_time(read_brokers(), POLL_S_MAX))
        if clock.monotonic_s() >= self._everything_at_s:
            self._put_off_everything()
            if not await self._read(read_everything, EVERYTHING_S_MAX):
                self._everything_at_s = clock.monotonic_s()
        else:
            await self._read(lambda: read_update(self._catalog.version), POLL_S_MAX)

    async def _in_time(self, steps: Steps[T], seconds: float) -> T:
        async with asyncio.timeout(seconds):
            return await self._runner.run(steps)

    async def _read(
        self, steps: Callable[[], Steps[RegistryUpdate | None]], seconds: float
    ) -> bool:
        """Read, and again if this broker changed topics in that time; False: it still does.

        Rows read before such a change would undo it here: leadership would begin twice.
        """
        for _ in range(READS_MAX):
            edit_count = self._catalog.edit_count
            update = await self._in_time(self._news_of(steps()), seconds)
            if edit_count == self._catalog.edit_count:
                if update is not None:
                    self._events.rows.report(update)
                return True
        return False

    def _news_of(self, steps: Steps[RegistryUpdate | None]) -> Steps[RegistryUpdate | None]:
        """What `steps` read that is not known, so that little is applied in one go."""
        update = yield from steps
        return None if update is None else (yield from sliced(self._catalog.news(update)))

    def _put_off_everything(self) -> None:
        """Brokers that start together do not read everything together."""
        wait_s = EVERYTHING_S * (0.75 + self._runner.rng.random() / 2)
        self._everything_at_s = self._runner.clock.monotonic_s() + wait_s


def _release(waiters: Iterable["asyncio.Future[None]"]) -> None:
    for waiter in waiters:
        if not waiter.done():  # it may have been given up
            waiter.set_result(None)
