"""Requests of protocols: pure generators that yield them and are sent the answers.

A protocol (put an object once, seal a chain, find an offset) is written top-down as a generator. It
yields one of the requests below; its driver performs the request and sends the answer back, or
throws its error. So the protocol has no I/O, clock or randomness of its own, the same code serves
asynchronous brokers and blocking readers (`logstore.runners.step_runner`), and a simulation can
give any answer, in any order, with a crash between any two of them.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from logstore.errors import LogstoreError, Unavailable
from logstore.ports.objects import Buffer
from logstore.ports.registry import Condition, Row
from logstore.slices import Slices

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Create:
    """Put an object if its key is free. One attempt."""

    key: str
    parts: Sequence[Buffer]


@dataclass(frozen=True, slots=True)
class Get:
    """A whole object, as bytes."""

    key: str


@dataclass(frozen=True, slots=True)
class GetRange:
    """Bytes [start, start + length) of an object, fewer at its end."""

    key: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove an object; no error when there is none."""

    key: str


@dataclass(frozen=True, slots=True)
class ListKeys:
    """Keys of all objects whose key starts with `prefix`, in order."""

    prefix: str


@dataclass(frozen=True, slots=True)
class ModifiedMs:
    """The time that the store stamped on an object; `NotFound` where there is none. One LIST."""

    key: str


@dataclass(frozen=True, slots=True)
class GetRow:
    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class QueryRows:
    """All rows of `pk` whose sk starts with `prefix`: a sequence of (sk, row)."""

    pk: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class PutRow:
    pk: str
    sk: str
    row: Row
    conditions: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class UpdateRow:
    pk: str
    sk: str
    sets: Row
    conditions: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class DeleteRow:
    pk: str
    sk: str
    conditions: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class BackOff:
    """Wait before attempt number `attempt` (1 is the first repeat): exponential, with jitter."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait this long. For watching a lease, never for hoping."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NowMs:
    """Wall-clock milliseconds, for stored timestamps."""


@dataclass(frozen=True, slots=True)
class MonotonicS:
    """Seconds of this host's monotonic clock."""


@dataclass(frozen=True, slots=True)
class BelievedMs:
    """Milliseconds since 1970 to judge by how old something is: `deletion.believed_time`."""


@dataclass(frozen=True, slots=True)
class StoreMs:
    """Milliseconds since 1970 by the store, or by this host where the store is a directory on it.

    For timestamps that are harmful both if too low and if too high
    (`logstore.protocol.deletion.believed_time`).
    """


@dataclass(frozen=True, slots=True)
class GraceStartMs:
    """Milliseconds since 1970 from which a period runs until something is deleted.

    As `StoreMs`; where the store is a directory, a wall clock that was set back does not count.
    """


@dataclass(frozen=True, slots=True)
class DrawNonce:
    """16 random bytes."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Drive all of these, at once where the driver can.

    The answer has one item for each, in order: its result, or the `LogstoreError` that ended it.
    """

    steps: Sequence["Generator[Any, Any, Any]"]


Request = (
    Create
    | Get
    | GetRange
    | Delete
    | ListKeys
    | ModifiedMs
    | GetRow
    | QueryRows
    | PutRow
    | UpdateRow
    | DeleteRow
    | BackOff
    | Wait
    | NowMs
    | MonotonicS
    | BelievedMs
    | StoreMs
    | GraceStartMs
    | DrawNonce
    | Gather
)

Steps = Generator[Request, Any, T]


def retried(
    request: Request,
    *,
    attempts_max: int,
    repeats: tuple[type[LogstoreError], ...] = (Unavailable,),
) -> Steps[Any]:
    """The answer to `request`, which does no harm twice. Raises the error of the last attempt."""
    for attempt in range(1, attempts_max):
        try:
            return (yield request)
        except repeats:
            yield BackOff(attempt)
    return (yield request)


def results_of(outcomes: Sequence[T | LogstoreError]) -> list[T]:
    """The results that `Gather` answered. Raises the first error among them."""
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, LogstoreError):
            raise outcome
        results.append(outcome)
    return results


def get(key: str) -> Steps[bytes | memoryview]:
    """One whole object, as steps, for `Gather`."""
    data: bytes | memoryview = yield Get(key)
    return data


def believed_ms() -> Steps[int]:
    """The time to judge by how old something is, as steps."""
    now_ms: int = yield BelievedMs()
    return now_ms


def sliced(slices: Slices[T]) -> Steps[T]:
    """Long work with a breath after each slice, in which others have their turn."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result
        yield Wait(0)
