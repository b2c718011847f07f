"""The watch over the registry: what it reads is never older than this broker's own changes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from logstore.epoch.events import Events
from logstore.epoch.watch import (
    BROKERS_S,
    EVERYTHING_S,
    FEED_S,
    HURRIED_FEED_S,
    HURRY_S,
    POLL_S_MAX,
    Watch,
)
from logstore.formats.broker_row import BrokerRow
from logstore.formats.feed_row import CHANGE
from logstore.formats.topic_row import TOPIC
from logstore.ports.clock import Clock
from logstore.ports.registry import Row
from logstore.protocol.rows.view import RegistryUpdate
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.slices import Slices
from logstore.testing.virtual_loop import VirtualClock
from tests.logstore.written import WrittenLog

READ_S = 0.01


class EditedRows(MemoryRows):
    """Rows that this broker changes while it reads them, as many times as a test says."""

    def __init__(self, edits: int) -> None:
        super().__init__()
        self.feed_looks_s: list[float] = []
        self.read_count = 0
        self.edit_count = 0
        self._edits = edits

    async def get(self, pk: str, sk: str) -> Row | None:
        if pk == CHANGE:
            self.feed_looks_s.append(VirtualClock().monotonic_s())
        return await super().get(pk, sk)

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        if pk == TOPIC:
            self.read_count += 1
            self.edit_count += self.read_count <= self._edits
        await VirtualClock().sleep_s(READ_S)
        return await super().query(pk, prefix, after=after, limit=limit)


class AllIsNews:
    """A catalog that knows no row, and is edited while `rows` are read."""

    version = 0

    def __init__(self, rows: EditedRows) -> None:
        self._rows = rows

    @property
    def edit_count(self) -> int:
        return self._rows.edit_count

    def news(self, update: RegistryUpdate) -> Slices[RegistryUpdate]:
        yield
        return update


@dataclass
class SeenBrokers:
    """`on_brokers` is called whenever their rows were read."""

    on_brokers: Callable[[], None]
    silent: Callable[[], bool]

    @property
    def is_one_silent(self) -> bool:
        return self.silent()

    def observe(self, brokers: Mapping[int, BrokerRow]) -> None:
        self.on_brokers()


@asynccontextmanager
async def watched(
    rows: EditedRows,
    on_update: Callable[[RegistryUpdate], None],
    on_brokers: Callable[[], None],
    is_one_silent: Callable[[], bool] = lambda: False,
) -> AsyncIterator[tuple[Clock, Watch]]:
    usual = WrittenLog().runner
    registry = RetryingRegistry(rows, lambda: "write", usual.clock, usual.rng)
    events = Events()
    events.rows.listen(on_update)
    cluster = SeenBrokers(on_brokers, is_one_silent)
    watch = Watch(replace(usual, registry=registry), AllIsNews(rows), cluster, events)
    fenced = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch.run(fenced))
        yield usual.clock, watch
        fenced.set()


async def test_what_was_read_before_an_edit_of_our_own_is_read_again() -> None:
    """It would undo the edit: a topic just made would be dropped, then led a second time."""

    rows = EditedRows(edits=1)
    heard: list[tuple[int, RegistryUpdate]] = []
    async with watched(
        rows, lambda update: heard.append((rows.read_count, update)), lambda: None
    ) as (clock, _):
        await clock.sleep_s(1.3 * EVERYTHING_S)
    first, *_ = heard
    assert first[0] == 2
    assert all(update.is_everything for _, update in heard)


async def test_who_edits_without_a_pause_still_learns_who_is_alive_and_all_else_in_the_end() -> (
    None
):
    rows = EditedRows(edits=100)
    heard: list[RegistryUpdate] = []
    looks: list[float] = []
    async with watched(rows, heard.append, lambda: looks.append(clock.monotonic_s())) as (
        clock,
        _,
    ):
        await clock.sleep_s(1.3 * EVERYTHING_S)
        while rows.read_count <= 100:
            await clock.sleep_s(1)
        await clock.sleep_s(1)
    assert max(b - a for a, b in pairwise(looks)) < 2 * BROKERS_S
    assert [update.is_everything for update in heard] == [True]


async def test_brokers_are_looked_at_more_often_while_one_seems_silent() -> None:
    looks: list[float] = []
    silent = False
    async with watched(
        EditedRows(edits=0),
        lambda update: None,
        lambda: looks.append(clock.monotonic_s()),
        lambda: silent,
    ) as (clock, _):
        await clock.sleep_s(10)
        usual, silent = looks.copy(), True
        looks.clear()
        await clock.sleep_s(10)
        hurried, silent = looks.copy(), False
        looks.clear()
        await clock.sleep_s(10)
    assert min(b - a for a, b in pairwise(usual)) > BROKERS_S
    assert max(b - a for a, b in pairwise(hurried)) < FEED_S + 3 * READ_S < BROKERS_S
    assert min(b - a for a, b in pairwise(looks)) > BROKERS_S


async def test_the_feed_is_read_more_often_for_a_while_when_partitions_are_handed_out() -> None:
    rows = EditedRows(edits=0)
    looks_s = rows.feed_looks_s
    async with watched(rows, lambda update: None, lambda: None) as (clock, watch):
        await clock.sleep_s(10)
        usual_s = list(looks_s)
        looks_s.clear()
        watch.hurry()
        await clock.sleep_s(HURRY_S)
        hurried_s = list(looks_s)
        await clock.sleep_s(FEED_S)
        looks_s.clear()
        await clock.sleep_s(10)
    assert min(b - a for a, b in pairwise(usual_s)) > FEED_S / 2
    assert max(b - a for a, b in pairwise(hurried_s)) <= HURRIED_FEED_S + 3 * READ_S
    assert min(b - a for a, b in pairwise(looks_s)) > FEED_S / 2


async def test_a_call_that_hangs_is_given_up_and_made_again() -> None:
    class HangingOnce(EditedRows):
        has_hung = False

        async def query(
            self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
        ) -> Sequence[tuple[str, Row]]:
            if not self.has_hung:
                self.has_hung = True
                await VirtualClock().sleep_s(3600)
            return await super().query(pk, prefix, after=after, limit=limit)

    looks_s: list[float] = []
    async with watched(
        HangingOnce(edits=0), lambda update: None, lambda: looks_s.append(clock.monotonic_s())
    ) as (clock, _):
        began_s = clock.monotonic_s()
        await clock.sleep_s(2 * POLL_S_MAX)
    assert looks_s[0] - began_s < POLL_S_MAX + 1.0


async def test_a_task_in_a_constant_hurry_still_waits_between_two_looks() -> None:
    """One broker drains, which every look at brokers tells, while another seems silent."""

    rows, watches = EditedRows(edits=0), list[Watch]()

    def hurry() -> None:
        for watch in watches:
            watch.hurry()

    async with watched(rows, lambda update: None, hurry, lambda: True) as (clock, watch):
        watches.append(watch)
        await clock.sleep_s(2.0)
        rows.feed_looks_s.clear()
        await clock.sleep_s(2.0)
    assert min(b - a for a, b in pairwise(rows.feed_looks_s)) > HURRIED_FEED_S
