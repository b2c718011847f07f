"""How long requests to a store or a registry took, by kind and by how they ended. Pure.

`outcome_of` sorts endings by what an operator does about them: `throttled` is a limit of the
service, `denied` are rights, `unknown` is an answer that was lost. `exists`, `absent` and
`condition` are answers like any other.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from logstore.errors import (
    AlreadyExists,
    ConditionFailed,
    Denied,
    NotFound,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.histogram import Histogram

OK, CANCELLED, FAILED = "ok", "cancelled", "failed"

_OUTCOMES: tuple[tuple[type[Exception], str], ...] = (
    (Throttled, "throttled"),
    (Retryable, "retryable"),
    (OutcomeUnknown, "unknown"),
    (Denied, "denied"),
    (NotFound, "absent"),
    (AlreadyExists, "exists"),
    (ConditionFailed, "condition"),
)
"""Subclasses before their bases."""


def outcome_of(error: BaseException | None) -> str:
    """The label of a request that ended with `error`, or with an answer."""
    if error is None:
        return OK
    for kind, outcome in _OUTCOMES:
        if isinstance(error, kind):
            return outcome
    return FAILED if isinstance(error, Exception) else CANCELLED


class RequestTimes:
    """A histogram of seconds for each kind and outcome that was seen. For one thread."""

    def __init__(self) -> None:
        self._histograms: dict[tuple[str, str], Histogram] = {}

    def add(self, kind: str, error: BaseException | None, seconds: float) -> None:
        key = (kind, outcome_of(error))
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = Histogram()
        histogram.add(seconds)

    @contextmanager
    def measure(self, kind: str, monotonic_s: Callable[[], float]) -> Iterator[None]:
        """Add what runs within, however it ends."""
        began_s = monotonic_s()
        try:
            yield
        except BaseException as error:
            self.add(kind, error, monotonic_s() - began_s)
            raise
        self.add(kind, None, monotonic_s() - began_s)

    @property
    def by_kind(self) -> Mapping[tuple[str, str], Histogram]:
        """By kind and outcome."""
        return self._histograms
