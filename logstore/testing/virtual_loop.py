"""An asyncio loop whose clock jumps to the next timer instead of waiting for it.

An hour of timers passes in milliseconds, and the same program takes the same steps every time:
nothing depends on the machine's clock, on threads or on memory addresses. The loop has no sockets,
pipes or executors; code that asks for one fails at once instead of leaving virtual time.

What a real loop hides or only logs ends the run here: every task waits and no timer is set
(`Deadlock`), virtual time runs past its limit (`TimeLimit`), a callback raises (its exception).
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH_MS = 1_700_000_000_000
LIMIT_S = 1_000_000.0
_WAITING_SHOWN_MAX = 20
_TIMEOUT_MAX_S = 86_400.0
_TIMERS_MIN = 100
_CANCELLED_SHARE_MAX = 0.5
"""With more timers than that, and a larger share of cancelled ones, the heap is made again."""


class Deadlock(AssertionError):
    """Every task waits and no timer is set; the text says where each of them waits."""


class TimeLimit(AssertionError):
    """Virtual time ran past its limit: timers keep firing, but the program does not end."""


class VirtualClock:
    """`ports.clock.Clock` on the running virtual loop; `epoch_ms` is the date when it starts.

    Clocks with different epochs are machines whose clocks disagree; with different `rate`, seconds
    of theirs per second of the loop, they run apart as well.
    """

    def __init__(self, epoch_ms: int = EPOCH_MS, *, rate: float = 1.0) -> None:
        self._epoch_ms = epoch_ms
        self._rate = rate

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time() * self._rate

    def now_ms(self) -> int:
        # Rounded, not cut off: ten sleeps of 0.1 s add up to a hair less than a second.
        return self._epoch_ms + round(self.monotonic_s() * 1000)

    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)


def run(main: Coroutine[Any, Any, T], *, limit_s: float = LIMIT_S) -> T:
    """Run `main` to its end in virtual time, from 0 s; tasks still running are cancelled.

    Raises what `main` raises, `Deadlock`, `TimeLimit`, or what a callback raised.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(limit_s)) as runner:
        result = runner.run(main)
        loop = runner.get_loop()
    assert isinstance(loop, VirtualLoop)
    loop.raise_failure()
    return result


class Timer(asyncio.TimerHandle):
    """As asyncio's."""

    __slots__ = ()
    _scheduled: bool


class _Due(float):
    """When a timer is due: floats compare in C, timers do not."""

    __slots__ = ("timer",)
    timer: Timer


class VirtualLoop(asyncio.BaseEventLoop):
    """Use `run`; a test that needs two runs on one loop gives this to `asyncio.Runner`.

    Queueing and running callbacks is the base class's algorithm, in its order, without what only a
    real loop needs (debug mode, a selector): most of a simulation's CPU time was spent there.
    """

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        super().__init__()
        self._now_s = 0.0
        self._limit_s = limit_s
        self._failure: BaseException | None = None
        self._failure_is_due = False
        self._timers: list[_Due] = []
        self._cancelled_count = 0
        # BaseEventLoop asks these two of its subclasses: where to wait, and how finely time runs.
        # A microsecond is above the spacing of floats for centuries of virtual time; with less, a
        # timer due now could look as if it were not due yet, for ever.
        self._selector = self
        self._clock_resolution = 1e-6
        numbers = itertools.count()
        self.set_task_factory(
            lambda loop, coro, **kwargs: _NumberedTask(next(numbers), coro, loop=loop, **kwargs)
        )
        self.set_exception_handler(_keep_first_failure)

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        return self._queue(asyncio.Handle(callback, args, self, context))

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._schedule(Timer(when, callback, args, self, context))

    def _queue(self, handle: asyncio.Handle) -> asyncio.Handle:
        if self.is_closed():
            raise RuntimeError("the event loop is closed")
        self._ready.append(handle)
        return handle

    def _schedule(self, timer: Timer) -> Timer:
        if self.is_closed():
            raise RuntimeError("the event loop is closed")
        due = _Due(timer.when())
        due.timer = timer
        heappush(self._timers, due)
        timer._scheduled = True
        return timer

    def _timer_handle_cancelled(self, timer: Timer) -> None:
        """A timer says that it was cancelled."""
        if timer._scheduled:
            self._cancelled_count += 1

    def _run_once(self) -> None:
        """Move time to the next timer if nothing is ready, then run what is ready now."""
        ready = self._ready
        self._drop_cancelled_timers()
        if ready or self._stopping:
            self.select(0)
        else:
            timeout = self._timers[0] - self._now_s if self._timers else None
            self.select(None if timeout is None else min(max(0, timeout), _TIMEOUT_MAX_S))
        timers, end_s = self._timers, self._now_s + self._clock_resolution
        while timers and timers[0] < end_s:
            timer = heappop(timers).timer
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _drop_cancelled_timers(self) -> None:
        timers, count = self._timers, self._cancelled_count
        if len(timers) > _TIMERS_MIN and count / len(timers) > _CANCELLED_SHARE_MAX:
            self._timers = [due for due in timers if not due.timer._cancelled]
            heapify(self._timers)
            self._cancelled_count = 0
            return
        while timers and timers[0].timer._cancelled:
            heappop(timers)
            self._cancelled_count -= 1

    def select(self, timeout: float | None) -> list[object]:
        """Stand in for a selector: nothing ever arrives from outside, so time may jump."""
        if self._failure_is_due:
            self.raise_failure()
        if timeout is None:
            raise Deadlock(
                f"every task waits, no timer is set at_s={self._now_s:g}{self._waiting()}"
            )
        self._now_s += timeout
        if self._now_s > self._limit_s:
            text = f"virtual time is up limit_s={self._limit_s:g}{self._waiting()}"
            self._limit_s += self._now_s  # what is cancelled now may need time to end
            raise TimeLimit(text)
        return []

    def raise_failure(self) -> None:
        failure, self._failure, self._failure_is_due = self._failure, None, False
        if failure is not None:
            raise failure

    def keep_failure(self, failure: BaseException) -> None:
        self._failure = self._failure or failure
        # Between steps the runner is cleaning up: let it finish, `run` raises afterwards.
        self._failure_is_due = self.is_running()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """A `ProcessLoop` has threads in virtual time."""
        raise RuntimeError("a thread runs outside virtual time: give the code under test a fake")

    def _process_events(self, event_list: list[object]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nothing to wake up: this loop never sleeps."""

    def _waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        lines = [f"\n  {task.get_name()}: {_waits_at(task)}" for task in tasks[:_WAITING_SHOWN_MAX]]
        if len(tasks) > _WAITING_SHOWN_MAX:
            lines.append(f"\n  and {len(tasks) - _WAITING_SHOWN_MAX} more")
        return "".join(lines)


class _NumberedTask(asyncio.Task[Any]):
    """A task that hashes to its number.

    TaskGroup, wait and shutdown keep tasks in sets and walk them; by the default hash, an address,
    they would be cancelled in another order on each run.
    """

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **kwargs: Any) -> None:
        self._number = number
        kwargs["name"] = kwargs.get("name") or f"task {number}"
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def set_name(self, name: object) -> None:
        if name is not None:  # how some Python versions say that the caller gave none
            super().set_name(name)


def _keep_first_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, VirtualLoop)
    loop.keep_failure(context.get("exception") or RuntimeError(context["message"]))


def _waits_at(task: asyncio.Task[Any]) -> str:
    """File, line and function of the innermost coroutine that the task has entered."""
    where = "not started"
    coroutine: Any = task.get_coro()
    while getattr(coroutine, "cr_frame", None) is not None:
        code = coroutine.cr_code
        where = f"{code.co_filename}:{coroutine.cr_frame.f_lineno} in {code.co_qualname}"
        coroutine = coroutine.cr_await
    return where
