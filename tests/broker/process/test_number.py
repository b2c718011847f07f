"""The number that a process takes by itself, and the lock of it."""

from pathlib import Path

from broker.process.number import free_number
from logstore.objects.metered import StoreCounts
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
