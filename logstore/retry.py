"""One call, repeated until it answers: how often, and how long between two attempts.

Blocking calls are repeated by `retry`, steps by `logstore.protocol.steps.retried`, whose runner
waits `pause_s` too. A loop that decides between two attempts asks `RetryDelays` for its wait.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TypeVar

from logstore.errors import LogstoreError, OutcomeUnknown, Retryable
from logstore.ports.clock import SystemClock, blocking_sleep_s

PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 2.0
_CLOCK = SystemClock()

_Answer = TypeVar("_Answer")


def pause_s(
    failures: int, rng: Random, first_s: float = PAUSE_FIRST_S, longest_s: float = PAUSE_MAX_S
) -> float:
    """Seconds to wait after so many failed attempts (1, 2, …): exponential, half of it jitter."""
    longest = min(longest_s, first_s * 2.0 ** min(failures - 1, 16))
    return longest * (0.5 + rng.random() / 2)


@dataclass(frozen=True, slots=True)
class RetryDelays:
    """When a call is repeated. Longer waits give a slow back end rest, and callers delay."""

    first_s: float = PAUSE_FIRST_S
    longest_s: float = PAUSE_MAX_S
    attempts_max: int | None = None
    deadline_s: float | None = None
    """No wait begins that would end later than this after the call began."""

    def __post_init__(self) -> None:
        assert 0 < self.first_s <= self.longest_s, "waits that shrink"
        assert self.attempts_max or self.deadline_s, "a retry without a bound"

    def wait_s(self, failures: int, elapsed_s: float, rng: Random) -> float | None:
        """Seconds to wait after so many failed attempts (1, 2, …); None: no further attempt."""
        if self.attempts_max is not None and failures >= self.attempts_max:
            return None
        wait_s = pause_s(failures, rng, self.first_s, self.longest_s)
        if self.deadline_s is not None and elapsed_s + wait_s > self.deadline_s:
            return None
        return wait_s


def retry(
    call: Callable[[], _Answer],
    delays: RetryDelays,
    rng: Random,
    *,
    sleep_s: Callable[[float], None] = blocking_sleep_s,
    monotonic_s: Callable[[], float] = _CLOCK.monotonic_s,
    repeats: tuple[type[LogstoreError], ...] = (Retryable, OutcomeUnknown),
    unless: tuple[type[LogstoreError], ...] = (),
) -> _Answer:
    """The answer of `call`, which does no harm twice. Raises its last error when `delays` end.

    Repeated after the errors of `repeats`, those of `unless` excepted. `Denied` is none of them:
    a person has to act.
    """
    began_s = monotonic_s()
    for failures in count(1):
        try:
            return call()
        except repeats as error:
            wait_s = delays.wait_s(failures, monotonic_s() - began_s, rng)
            if wait_s is None or isinstance(error, unless):
                raise
        sleep_s(wait_s)
    raise AssertionError("unreachable")
