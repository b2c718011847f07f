"""Takes a coroutine as far as it goes without waiting; the rest is a task. Its steps are measured.

    steps = Steps(begin, call, clients, loop.time)
    if steps.first():               # it waits
        loop.create_task(finish())  # which awaits `steps`

A request that never waits costs no task.
"""

from collections.abc import Callable, Generator
from typing import Any

from broker.network.call import Call
from broker.network.turns import StepTimes
from broker.requests.way import Answering


class Steps:
    """A coroutine that answers `call`, on its way; await it to go on to its end."""

    __slots__ = ("_answering", "_begin", "_call", "_now_s", "_times", "_wait")

    def __init__(
        self,
        begin: Callable[[], Answering],
        call: Call,
        times: StepTimes,
        now_s: Callable[[], float],
    ) -> None:
        """`begin` makes the coroutine at the first step: work that is given up leaves none."""
        self._begin = begin
        self._call = call
        self._times = times
        self._now_s = now_s
        self._answering: Answering | None = None
        self._wait: Any = None
        """The coroutine waits for it: a future, or None for the next pass of the loop."""

    def first(self) -> bool:
        """Go until the first wait, in no task. Returns whether there is one.

        The time that it takes is not noted: it is part of the step that called.
        """
        answering = self._answering = self._begin()
        try:
            self._wait = answering.send(None)
        except StopIteration:
            return False
        return True

    def __await__(self) -> Generator[Any, None, None]:
        if self._answering is None and not self._next(None):
            return
        while True:
            error: BaseException | None = None
            try:
                yield self._wait
            except BaseException as raised:  # noqa: BLE001 - the coroutine's to catch
                error = raised
            if not self._next(error):
                return

    def _next(self, error: BaseException | None) -> bool:
        began_s = self._now_s()
        if self._answering is None:
            self._answering = self._begin()
        try:
            if error is None:
                self._wait = self._answering.send(None)
            else:
                self._wait = self._answering.throw(error)
        except StopIteration:
            return False
        finally:
            self._times.note(self._call, self._now_s() - began_s)
        return True
