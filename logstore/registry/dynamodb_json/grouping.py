"""Decides which waiting calls go together in one request, and which go on after a cancelled one.

A group never holds more than the service takes: 100 reads, of any rows; 50 writes, each of another
row. A later write of a row follows the earlier one.

DynamoDB bills a write in a transaction like two. So writes go together only from `WRITES_MIN` on
(`is_transaction`), and a heartbeat goes alone. Reads cost the same either way.

A cancelled transaction has done nothing, and gives a reason for each of its writes. A condition
that failed is as definite as that of a write alone; the other writes go on. Pure.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

from logstore.errors import LogstoreError
from logstore.registry.dynamodb_json.errors import condition_failed
from logstore.registry.dynamodb_json.requests import Key


@dataclass(frozen=True, slots=True)
class CallGroupLimits:
    """Limits of one group."""

    calls_max: int
    bytes_max: int = 0
    """Of all `size_bytes`; one call that is longer goes as a group of its own."""
    once_each: bool = False
    """Whether a group holds each row once."""


WRITES_MIN = 4
WRITES_MAX = 50
READS_MAX = 100  # the service's limit
TRANSACTIONS_MAX = 2  # of one call, before it goes alone
_WRITES_BYTES_MAX = 1 << 20  # of the service's 4 MiB: a row is longer than what updates it

WRITES = CallGroupLimits(WRITES_MAX, _WRITES_BYTES_MAX, once_each=True)
READS = CallGroupLimits(READS_MAX)


class GroupableCall(Protocol):
    """A call of the row `key`; `size_bytes` are those of its row in the request."""

    key: Key
    size_bytes: int

    def is_cancelled(self) -> bool: ...


_Call = TypeVar("_Call", bound=GroupableCall)


def next_group(waiting: deque[_Call], limits: CallGroupLimits) -> list[list[_Call]]:
    """Takes the next group from the front of `waiting`; drops cancelled calls.

    The first call of each list goes now, the others after it, in order: they are later calls of
    the same row. Without `once_each` every list has one call.
    """
    group: list[list[_Call]] = []
    rows: dict[Key, list[_Call]] = {}
    room_bytes = limits.bytes_max
    while waiting and len(group) < limits.calls_max:
        call = waiting[0]
        if group and call.size_bytes > room_bytes:
            break
        waiting.popleft()
        if call.is_cancelled():
            continue
        if limits.once_each and call.key in rows:
            rows[call.key].append(call)
        else:
            rows[call.key] = [call]
            group.append(rows[call.key])
            room_bytes -= call.size_bytes
    return group


def is_transaction(writes: int) -> bool:
    """Whether so many writes, whose callers all wait, go as one; else each goes alone."""
    return writes >= WRITES_MIN


class AfterCancel(Enum):
    """Next step of a write whose transaction was cancelled for another reason than its own."""

    TOGETHER = auto()
    """Nothing was wrong with it."""
    ALONE = auto()
    """It met another transaction, a limit or another refusal: sent alone, it gets the reason."""


def after_cancellation(
    reasons: Sequence[Mapping[str, Any]], writes: int, facts: str
) -> Sequence[LogstoreError | AfterCancel]:
    """For each of so many `writes`; `reasons` are the answer's."""
    if len(reasons) != writes:
        return [AfterCancel.ALONE] * writes  # not as the service documents it: trust nothing of it
    steps = [_after(reason, facts) for reason in reasons]
    if all(step is AfterCancel.TOGETHER for step in steps):
        return [AfterCancel.ALONE] * writes
    return steps


def _after(reason: Mapping[str, Any], facts: str) -> LogstoreError | AfterCancel:
    match reason.get("Code"):
        case "None":
            return AfterCancel.TOGETHER
        case "ConditionalCheckFailed":
            return condition_failed(reason.get("Item"), facts)
        case _:
            return AfterCancel.ALONE
