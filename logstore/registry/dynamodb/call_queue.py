"""Calls that wait for a thread; threads take them in groups.

Calls made in one tick of the event loop, or while every thread is busy, are taken together, as far
as `registry.dynamodb_json.grouping` lets them.

A call whose caller has stopped waiting is left out; so a cancelled future means that nothing
happened, and one that cannot be cancelled means that the call may have happened, or may yet.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from logstore.errors import ConditionFailed, LogstoreError, Retryable, without_frames
from logstore.registry.dynamodb_json.grouping import CallGroupLimits, next_group
from logstore.registry.dynamodb_json.requests import Key

_Request = TypeVar("_Request")


@dataclass(slots=True, eq=False)
class PendingCall(Generic[_Request]):
    """One call of one row."""

    request: _Request
    key: Key
    size_bytes: int = 0
    future: Future[Any] = field(default_factory=Future)
    is_wanted: bool = True
    """Whether a caller waits for the answer, also once the call has begun."""
    behind: list["PendingCall[_Request]"] = field(default_factory=list)
    """Later calls of the same row."""

    def is_cancelled(self) -> bool:
        return self.future.cancelled()

    def begin(self) -> bool:
        """False if its caller no longer waits: then it must not be sent, nor sent again."""
        if not self.future.running():
            return self.future.set_running_or_notify_cancel()
        if not self.is_wanted:
            self.fail(Retryable("its caller no longer waits"))
        return self.is_wanted

    def end_with(self, run: Callable[[], Any]) -> None:
        """Its answer is what `run` returns or raises."""
        try:
            answer = run()
        except LogstoreError as error:
            self.future.set_exception(without_frames(error))
        except BaseException as error:  # noqa: BLE001 - a mistake of ours
            self.future.set_exception(error)
        else:
            self.future.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """Each caller has an error of its own: its traceback is to be the caller's alone."""
        if isinstance(error, LogstoreError) and not isinstance(error, ConditionFailed):
            own = type(error)(str(error))
            own.__cause__ = without_frames(error)
            error = own
        self.future.set_exception(error)


class CallQueue(Generic[_Request]):
    """A queue in front of threads. `submit` has a thread run something; `send` answers a group."""

    def __init__(
        self,
        submit: Callable[[Callable[[], None]], None],
        send: Callable[[Sequence[PendingCall[_Request]]], None],
        limits: CallGroupLimits,
    ) -> None:
        self._submit = submit
        self._send = send
        self._limits = limits
        self._lock = threading.Lock()
        self._waiting: deque[PendingCall[_Request]] = deque()
        self._turns = 0  # of threads that were asked for and have not come yet

    def add(self, call: PendingCall[_Request]) -> None:
        """It waits for a `begin` after it."""
        self._waiting.append(call)

    def begin(self) -> None:
        """Ask for as many threads as what waits may need."""
        with self._lock:
            needed = -(-len(self._waiting) // self._limits.calls_max) - self._turns
            self._turns += max(0, needed)
        for _ in range(needed):
            self._submit(self._turn)

    def _turn(self) -> None:
        with self._lock:
            self._turns -= 1
            group = self._take()
        self.begin()  # for what was too big for this group
        if group:
            self._send(group)

    def _take(self) -> Sequence[PendingCall[_Request]]:
        group: list[PendingCall[_Request]] = []
        for call, *later in next_group(self._waiting, self._limits):
            call.behind = later
            group.append(call)
        return group
