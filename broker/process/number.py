"""`--broker auto`: which number this process runs under, and the lock of that number.

The lock directory keeps a file `broker-N.holder` for each number that was taken from it. A process
that starts there again has the number back, if no other process has taken it since.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from logstore.epoch.membership import HEARTBEAT_S
from logstore.errors import ConditionFailed, LogstoreError
from logstore.protocol.leading.broker_number import keep_number, renew_number, take_number
from logstore.runners.step_runner import StepRunner
from logstore.wiring.host_lock import HostLock, LockHeld
from logstore.wiring.open import OpenLog

HOLDER_BYTES = 16

Live = Callable[[Callable[[], object]], Awaitable[int]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TakenNumber:
    number: int
    lock: HostLock
    holder: str = ""
    """Empty: the number was given by hand."""

    async def renewed(self, runner: StepRunner, live: Live) -> int:
        """The exit code of `live`, which calls back once its broker row is renewed: the number row
        is until then. Raises as it does."""
        code, failure = 0, None
        async with asyncio.TaskGroup() as tasks:
            renewing = tasks.create_task(self._renew(runner))
            try:
                code = await live(renewing.cancel)
            except LogstoreError as error:
                failure = error
            finally:
                renewing.cancel()
        if failure is not None:
            raise failure
        return code

    async def _renew(self, runner: StepRunner) -> None:
        """Until cancelled, or refused: then the start is refused too, by the broker row."""
        while self.holder:
            await runner.clock.sleep_s(HEARTBEAT_S)
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await runner.run(renew_number(self.number, self.holder))
            except ConditionFailed:
                return
            except TimeoutError:
                self._warn(f"the registry does not answer: timeout_s={HEARTBEAT_S}")
            except LogstoreError as error:
                self._warn(str(error))

    def _warn(self, reason: str) -> None:
        logger.warning("cannot renew the number: broker=%d %s", self.number, reason)


def given_number(opened: OpenLog, number: int) -> TakenNumber:
    """Raises `Refused` if it runs here already."""
    return TakenNumber(number, HostLock(lock_path(opened, number)))


async def free_number(opened: OpenLog) -> TakenNumber:
    """The number that this lock directory had, else the lowest that is free. Raises `Refused`."""
    for path in _holder_paths(opened.lock_directory):
        number, holder = int(path.stem.removeprefix("broker-")), path.read_text().strip()
        try:
            lock = HostLock(lock_path(opened, number))
        except LockHeld:
            continue  # it runs now
        if await opened.runner.run(keep_number(number, holder)):
            return TakenNumber(number, lock, holder)
        lock.release()
    return await _new_number(opened)


async def _new_number(opened: OpenLog) -> TakenNumber:
    """A number whose lock is held here has a live process, even one too slow to renew its row."""
    holder, held = secrets.token_hex(HOLDER_BYTES), set[int]()
    while True:
        number = await opened.runner.run(take_number(holder, held))
        try:
            lock = HostLock(lock_path(opened, number))
        except LockHeld:
            held.add(number)
            continue
        lock_path(opened, number).with_suffix(".holder").write_text(f"{holder}\n")
        return TakenNumber(number, lock, holder)


def lock_path(opened: OpenLog, number: int) -> Path:
    return opened.lock_directory / f"broker-{number}.lock"


def _holder_paths(directory: Path) -> Iterator[Path]:
    """Lowest number first."""
    paths = {int(path.stem.removeprefix("broker-")): path for path in directory.glob("*.holder")}
    yield from (paths[number] for number in sorted(paths))
