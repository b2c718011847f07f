"""A broker's standing: what a heartbeat that hangs, or lands late, may cost it, and what not."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from logstore.epoch.membership import Heartbeats, Membership
from logstore.errors import ConditionFailed
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.ports.registry import Condition, Row
from logstore.protocol.leading.start import LEASE_S
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.simulated_rows import at_once
from tests.logstore.written import WrittenLog

ROW = BrokerRow(epoch=7, heartbeat=1, host="h", port=1, rack="", lock="l")


class StuckRows(MemoryRows):
    """Rows on which one update of a broker's row waits to be let go, before it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.is_next_stuck = False
        self.are_all_stuck = False
        self.let_go = asyncio.Event()

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        if pk == BROKER and (self.is_next_stuck or self.are_all_stuck):
            self.is_next_stuck = False
            await self.let_go.wait()
        await super().update_if(pk, sk, sets, conditions, write_id)


def runner_on(rows: MemoryRows, usual: StepRunner) -> StepRunner:
    ids = (f"write {number}" for number in range(1_000_000))
    registry = RetryingRegistry(rows, lambda: next(ids), usual.clock, usual.rng)
    return replace(usual, registry=registry)


def broker_row(rows: MemoryRows, broker: int = 1) -> BrokerRow:
    row = at_once(rows.get(BROKER, str(broker)))
    assert row is not None
    return BrokerRow.of(row)


async def test_one_heartbeat_without_an_answer_costs_a_broker_nothing() -> None:
    written = WrittenLog()
    rows = StuckRows()
    written.rows, clock = rows, written.runner.clock
    written.runner = runner_on(rows, written.runner)
    async with written.life() as log:
        await clock.sleep_s(LEASE_S)
        rows.is_next_stuck = True
        for _ in range(10):
            before = broker_row(rows).heartbeat
            await clock.sleep_s(LEASE_S / 2)
            assert log.has_read_lease
            assert broker_row(rows).heartbeat > before
        assert not rows.is_next_stuck
        rows.let_go.set()
        await clock.sleep_s(LEASE_S)
        assert log.has_read_lease
        assert not log.fenced.is_set()


async def test_only_a_registry_that_answers_nothing_for_a_lease_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = WrittenLog()
    rows = StuckRows()
    written.rows, clock = rows, written.runner.clock
    written.runner = runner_on(rows, written.runner)
    async with written.life():
        await clock.sleep_s(LEASE_S)
        rows.is_next_stuck = True  # those after it get through
        await clock.sleep_s(3 * LEASE_S)
        assert not caplog.messages
        rows.are_all_stuck = True
        await clock.sleep_s(3 * LEASE_S)
        assert caplog.messages == ["cannot renew the lease, continuing: broker=1 no answer in time"]
        rows.are_all_stuck = False
        rows.let_go.set()


async def test_a_fenced_broker_does_not_say_that_it_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = WrittenLog()
    rows = StuckRows()
    written.rows, clock = rows, written.runner.clock
    written.runner = runner_on(rows, written.runner)
    async with written.life(clean=False) as log:
        rows.are_all_stuck = True
        await clock.sleep_s(LEASE_S / 2)
        log.writer.stop()
        await clock.sleep_s(LEASE_S)
        assert not caplog.messages


async def test_who_cannot_renew_vouches_for_the_rest_of_a_lease_and_no_longer() -> None:
    written = WrittenLog()
    rows = StuckRows()
    written.rows, clock = rows, written.runner.clock
    written.runner = runner_on(rows, written.runner)
    async with written.life() as log:
        await clock.sleep_s(LEASE_S)
        rows.are_all_stuck = True
        has_read_lease = [log.has_read_lease]
        await clock.sleep_s(LEASE_S)
        has_read_lease.append(log.has_read_lease)
        rows.are_all_stuck = False
        rows.let_go.set()
        await clock.sleep_s(LEASE_S)
        assert [*has_read_lease, log.has_read_lease] == [True, False, True]


async def test_a_lease_is_counted_from_the_beginning_of_a_heartbeat() -> None:
    """The row may have changed as early as that, and others count their lease from there."""

    written = WrittenLog()
    rows = StuckRows()
    written.rows, clock = rows, written.runner.clock
    written.runner = runner_on(rows, written.runner)
    async with written.life() as log:
        heartbeats = Heartbeats(written.runner, 1, log.epoch, last=1_000_000)
        membership = Membership(
            written.runner, log.writer, log._catalog, log._followers, heartbeats
        )
        rows.are_all_stuck = True
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(membership.renew())
            await clock.sleep_s(LEASE_S - 0.5)
            has_read_lease = [membership.has_read_lease]
            rows.are_all_stuck = False
            rows.let_go.set()
        for seconds in (0.4, 0.1):
            await clock.sleep_s(seconds)
            has_read_lease.append(membership.has_read_lease)
        assert has_read_lease == [False, True, False]


async def test_a_heartbeat_that_lands_late_takes_back_nothing_that_was_said_after_it() -> None:
    rows = StuckRows()
    runner = runner_on(rows, WrittenLog().runner)
    await rows.put_if(BROKER, "1", ROW.row(), [], "first")
    heartbeats = Heartbeats(runner, 1, ROW.epoch, ROW.heartbeat)
    rows.is_next_stuck = True
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(heartbeats.send(BrokerStatus.SERVING))
        await runner.clock.sleep_s(1)
        await heartbeats.send(BrokerStatus.STOPPED)
        said = broker_row(rows)
        rows.let_go.set()  # and no successor is in its way: it raises nothing
    assert broker_row(rows) == said
    assert said.status is BrokerStatus.STOPPED


@pytest.mark.parametrize(
    "changed", [replace(ROW, epoch=8), replace(ROW, status=BrokerStatus.FENCED)]
)
async def test_a_successor_or_a_fence_refuses_heartbeats(changed: BrokerRow) -> None:
    rows = MemoryRows()
    runner = runner_on(rows, WrittenLog().runner)
    await rows.put_if(BROKER, "1", changed.row(), [], "first")
    with pytest.raises(ConditionFailed):
        await Heartbeats(runner, 1, ROW.epoch, ROW.heartbeat).send(BrokerStatus.SERVING)
