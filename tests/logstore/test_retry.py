"""One call, repeated: which errors, how often, and how long it takes in all."""

from random import Random

import pytest

from logstore.errors import Denied, LogstoreError, NotFound, OutcomeUnknown, Retryable, Throttled
from logstore.retry import RetryDelays, retry

WAITS_S = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


class Calls:
    """Fails with `errors`, one by one, then answers; time passes while it is waited for."""

    def __init__(self, *errors: LogstoreError) -> None:
        self.errors = list(errors)
        self.waits_s: list[float] = []

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    def run(self, delays: RetryDelays, unless: tuple[type[LogstoreError], ...] = ()) -> str:
        return retry(
            self,
            delays,
            Random(1),
            sleep_s=self.waits_s.append,
            monotonic_s=lambda: sum(self.waits_s),
            unless=unless,
        )


def test_waits_double_up_to_two_seconds_and_half_of_each_is_jitter() -> None:
    calls = Calls(*(Retryable("not now") for _ in WAITS_S))
    assert calls.run(RetryDelays(attempts_max=len(WAITS_S) + 1)) == "answer"
    for wait_s, longest_s in zip(calls.waits_s, WAITS_S, strict=True):
        assert longest_s / 2 <= wait_s <= longest_s
    assert len(set(calls.waits_s[-2:])) == 2


def test_the_last_attempt_raises() -> None:
    calls = Calls(Retryable("1"), OutcomeUnknown("2"), Throttled("3"), Retryable("4"))
    with pytest.raises(Throttled):
        calls.run(RetryDelays(attempts_max=3))
    assert len(calls.waits_s) == 2


def test_no_wait_ends_after_the_deadline() -> None:
    calls = Calls(*(Retryable(str(number)) for number in range(100)))
    with pytest.raises(Retryable):
        calls.run(RetryDelays(deadline_s=5.0))
    assert 3.0 <= sum(calls.waits_s) <= 5.0


@pytest.mark.parametrize("error", [Denied("no"), NotFound("no"), Throttled("in vain")])
def test_what_waiting_does_not_help_is_raised_at_once(error: LogstoreError) -> None:
    calls = Calls(error)
    with pytest.raises(type(error)):
        calls.run(RetryDelays(attempts_max=3), unless=(Throttled,))
    assert not calls.waits_s


def test_a_retry_has_a_bound() -> None:
    with pytest.raises(AssertionError, match="without a bound"):
        RetryDelays()
