"""`--broker auto`: the lowest free number, for one process each; its own again after a restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from logstore.epoch.membership import HEARTBEAT_S
from logstore.errors import ConditionFailed
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.formats.number_row import NUMBER, NumberRow
from logstore.protocol.leading.broker_number import keep_number, renew_number, take_number
from logstore.protocol.leading.start import LEASE_S
from logstore.runners.step_runner import StepRunner
from logstore.testing.virtual_loop import run
from tests.logstore.written import WrittenLog

SOON_S = 2 * HEARTBEAT_S
SERVING, STOPPED, FENCED = BrokerStatus.SERVING, BrokerStatus.STOPPED, BrokerStatus.FENCED


async def put_broker(
    runner: StepRunner, number: int, status: BrokerStatus, heartbeat: int = 0, epoch: int = 7
) -> None:
    row = BrokerRow(
        epoch=epoch, heartbeat=heartbeat, host="", port=1, rack="", lock="", status=status
    )
    await runner.registry.put_if(BROKER, str(number), row.row())


@asynccontextmanager
async def alive(runner: StepRunner, *numbers: int) -> AsyncIterator[None]:
    """Brokers of these numbers send heartbeats."""

    async def beat(number: int) -> None:
        heartbeat = 0
        while True:
            await put_broker(runner, number, SERVING, heartbeat := heartbeat + 1)
            await runner.clock.sleep_s(HEARTBEAT_S)

    async with asyncio.TaskGroup() as tasks:
        beating = [tasks.create_task(beat(number)) for number in numbers]
        await runner.clock.sleep_s(HEARTBEAT_S / 2)
        yield
        for task in beating:
            task.cancel()


async def taken(runner: StepRunner, holder: str = "new") -> tuple[int, float]:
    """The number, and how long it took."""
    began_s = runner.clock.monotonic_s()
    number = await runner.run(take_number(holder))
    return number, runner.clock.monotonic_s() - began_s


def test_the_first_process_of_a_log_is_number_one_at_once() -> None:
    assert run(taken(WrittenLog().runner)) == (1, 0.0)


def test_a_number_that_is_excluded_is_not_taken_however_silent_it_is() -> None:
    async def scenario() -> int:
        runner = WrittenLog().runner
        await put_broker(runner, 1, STOPPED)
        return await runner.run(take_number("new", {1, 2}))

    assert run(scenario()) == 3


def test_processes_that_start_together_get_a_number_each_within_two_heartbeats() -> None:
    async def scenario() -> list[tuple[int, float]]:
        runner = WrittenLog().runner

        async def process(holder: str) -> tuple[int, float]:
            found = await taken(runner, holder)
            for _ in range(5):  # a start that takes longer than a lease
                await runner.clock.sleep_s(HEARTBEAT_S)
                await runner.run(renew_number(found[0], holder))
            return found

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(process(f"holder {n}")) for n in range(6)]
        return [task.result() for task in running]

    found = run(scenario())

    assert sorted(number for number, _ in found) == [1, 2, 3, 4, 5, 6]
    assert max(seconds for _, seconds in found) <= SOON_S


def test_a_number_whose_broker_stopped_in_good_order_is_free_once_the_lower_are_known_alive() -> (
    None
):
    async def scenario() -> tuple[int, float]:
        runner = WrittenLog().runner
        await put_broker(runner, 2, STOPPED)
        async with alive(runner, 1, 3):
            return await taken(runner)

    number, seconds = run(scenario())

    assert number == 2
    assert seconds <= SOON_S


@pytest.mark.parametrize("status", [SERVING, FENCED])
def test_a_number_whose_broker_is_silent_is_free_after_a_lease(status: BrokerStatus) -> None:
    async def scenario() -> tuple[int, float]:
        runner = WrittenLog().runner
        await put_broker(runner, 2, status)
        async with alive(runner, 1, 3):
            return await taken(runner)

    number, seconds = run(scenario())

    assert number == 2
    assert seconds >= LEASE_S


def test_a_number_whose_holder_died_before_its_broker_row_is_free_after_a_lease() -> None:
    async def scenario() -> tuple[int, float]:
        runner = WrittenLog().runner
        await put_broker(runner, 1, STOPPED)
        assert await taken(runner, "died") == (1, 0.0)
        return await taken(runner)

    number, seconds = run(scenario())

    assert number == 1
    assert seconds >= LEASE_S


def test_a_restart_keeps_its_number_while_no_other_process_took_it() -> None:
    async def scenario() -> list[bool]:
        runner = WrittenLog().runner
        assert not await runner.run(keep_number(1, "first"))
        await taken(runner, "first")
        await put_broker(runner, 1, STOPPED)
        kept = [await runner.run(keep_number(1, "first"))]
        await put_broker(runner, 1, STOPPED, epoch=8)
        await taken(runner, "second")
        kept += [await runner.run(keep_number(1, name)) for name in ("first", "second")]
        with pytest.raises(ConditionFailed):
            await runner.run(renew_number(1, "first"))
        return kept

    assert run(scenario()) == [True, False, True]


def test_a_process_that_has_its_number_back_is_alive_before_its_broker_row_is_new() -> None:
    async def scenario() -> int:
        runner = WrittenLog().runner
        await taken(runner, "first")
        await put_broker(runner, 1, STOPPED)
        assert await runner.run(keep_number(1, "first"))
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(taken(runner, "second"))
            while not taking.done():
                await runner.clock.sleep_s(HEARTBEAT_S)
                await runner.run(renew_number(1, "first"))
        return taking.result()[0]

    assert run(scenario()) == 2


def test_the_row_says_who_holds_the_number_and_which_life_it_replaces() -> None:
    async def scenario() -> NumberRow:
        runner = WrittenLog().runner
        await put_broker(runner, 1, STOPPED, epoch=12)
        await taken(runner, "holder")
        row = await runner.registry.get(NUMBER, "1")
        assert row is not None
        return NumberRow.of(row)

    assert run(scenario()) == NumberRow(holder="holder", epoch=12, heartbeat=0)
