"""Where probes run: racers that start at one moment, and calls that are repeated."""

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from logstore.errors import Denied
from logstore.retry import RetryDelays, pause_s, retry

RACERS = 8
ATTEMPTS_MAX = 6
_DELAYS = RetryDelays(attempts_max=ATTEMPTS_MAX)
_START_S = 60.0

_Answer = TypeVar("_Answer")


class Track:
    """A thread for each racer, while it is open."""

    def __init__(self, rng: random.Random, sleep_s: Callable[[float], None]) -> None:
        self._rng = rng
        self._sleep_s = sleep_s
        self._pool = ThreadPoolExecutor(RACERS, thread_name_prefix="probe")

    def __enter__(self) -> "Track":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown()

    def race(self, run: Callable[[int], _Answer]) -> Sequence[_Answer]:
        """What `run` answers to each racer's number, all called at the same moment."""
        start = threading.Barrier(RACERS, timeout=_START_S)

        def racer(number: int) -> _Answer:
            start.wait()
            return run(number)

        return list(self._pool.map(racer, range(RACERS)))

    def retry(self, call: Callable[[], _Answer]) -> _Answer:
        """For reads and other calls that may be repeated."""
        return retry(call, _DELAYS, self._rng, sleep_s=self._sleep_s)

    def back_off(self, attempt: int) -> None:
        self._sleep_s(pause_s(attempt, self._rng))


class NotAllowed(Exception):
    """A permission is missing; says which."""


def allowed(permission: str, call: Callable[[], _Answer]) -> _Answer:
    """The answer of `call`. Raises `NotAllowed` where the store denies it."""
    try:
        return call()
    except Denied as error:
        raise NotAllowed(f"not allowed: {permission}: {error}") from error


def faults_of(*checks: Callable[[], str | None]) -> list[str]:
    """Runs every check, also after failures of others; the faults found."""
    faults = []
    for check in checks:
        try:
            fault = check()
        except NotAllowed as error:
            fault = str(error)
        if fault is not None and fault not in faults:
            faults.append(fault)
    return faults
