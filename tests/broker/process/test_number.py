"""The number that a process takes by itself, and the lock of it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from broker.process.number import free_number
from logstore.epoch.membership import HEARTBEAT_S
from logstore.objects.metered import StoreCounts
from logstore.ports.registry import Condition, Row
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.stores.location import DirectoryLocation
from logstore.testing.virtual_loop import run
from logstore.wiring.open import OpenLog
from tests.logstore.written import WrittenLog


async def opened_at(directory: Path) -> OpenLog:
    written = WrittenLog()
    identity = await written._identity()
    return OpenLog(DirectoryLocation(directory), written.runner, identity, StoreCounts())


def test_a_process_too_slow_to_renew_keeps_its_number_by_its_lock(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        opened = await opened_at(tmp_path)
        taken = [await free_number(opened) for _ in range(3)]  # none of them renews its row
        for one in taken:
            one.lock.release()
        return [one.number for one in taken]

    assert run(scenario()) == [1, 2, 3]


def test_a_restart_has_the_number_of_its_directory_back(tmp_path: Path) -> None:
    async def scenario() -> tuple[int, float]:
        opened = await opened_at(tmp_path)
        first, second = await free_number(opened), await free_number(opened)
        second.lock.release()
        began_s = opened.runner.clock.monotonic_s()
        again = await free_number(opened)
        seconds = opened.runner.clock.monotonic_s() - began_s
        first.lock.release()
        again.lock.release()
        return again.number, seconds

    assert run(scenario()) == (2, 0.0)


class MuteRows(MemoryRows):
    """Rows whose updates have no answer."""

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await asyncio.Event().wait()


def test_a_renewal_without_an_answer_is_logged_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        opened = await opened_at(tmp_path)
        taken = await free_number(opened)
        mute = RetryingRegistry(MuteRows(), str, opened.runner.clock, opened.runner.rng)

        async def live(_: Callable[[], object]) -> int:
            await opened.runner.clock.sleep_s(2.5 * HEARTBEAT_S)
            return 0

        await taken.renewed(replace(opened.runner, registry=mute), live)
        taken.lock.release()

    with caplog.at_level(logging.WARNING):
        run(scenario())
    text = (
        f"cannot renew the number: broker=1 the registry does not answer: timeout_s={HEARTBEAT_S}"
    )
    assert text in caplog.messages
