"""Simulated processes on the virtual loop: killed at any step, stopped, never cleaned up.

A `Process` owns every task and timer that its code starts (a context variable follows them).
SIGKILL drops all of its steps: no `finally` runs, nothing is cancelled, what it had handed to a
store stays on its way. SIGSTOP holds them back; when it goes on, all its timers are late at once.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack

from logstore.testing.blocking import BlockingCall
from logstore.testing.cpu import Cpu
from logstore.testing.virtual_loop import LIMIT_S, Timer, VirtualLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PROCESS: ContextVar["Process"] = ContextVar("process")
LOOKS_AT_ALL_EVERY = 50
"""Simulations: what was frozen and died since is kept so long."""
_SIMULATED = count()

RESOLUTION_S = 1e-6


class Network(Protocol):
    """Carries connections between simulated processes (`simulated_network.SimulatedNetwork`)."""

    async def connect(self, factory: Any, address: tuple[str, int], /) -> Any: ...

    def addresses_of(self, host: str, port: int, /) -> list[tuple[Any, ...]]: ...


class _Step(asyncio.Handle):
    """One callback of one process: it runs when the process takes it."""

    __slots__ = ("process",)
    process: "Process"
    _callback: Callable[..., object]
    _args: Sequence[object]
    _context: Context

    def _run(self) -> None:
        _take(self)


class _TimerStep(Timer):
    """As `_Step`, at its time."""

    __slots__ = ("process",)
    process: "Process"
    _callback: Callable[..., object]
    _args: Sequence[object]
    _context: Context

    def _run(self) -> None:
        _take(self)


Step = _Step | _TimerStep


def _take(step: Step) -> None:
    try:
        step._context.run(step.process.take_step, step)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - ends the run, as `VirtualLoop` says
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": f"exception in {step!r}", "exception": error})


class ProcessLoop(VirtualLoop):
    """Use `simulate`."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        super().__init__(limit_s)
        self.is_over = False
        self.network: Network | None = None
        """Where `create_server` and `create_connection` lead; None: they fail."""
        self._processes: list[Process] = []
        self._calls: list[BlockingCall[Any]] = []

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return self._queue(asyncio.Handle(callback, args, self, context))
        step = _Step(callback, args, self, context)
        step.process = process
        return self._queue(step)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return self._schedule(Timer(when, callback, args, self, context))
        timer = _TimerStep(when, callback, args, self, context)
        timer.process = process
        return self._schedule(timer)

    def go_on_with(self, step: Step) -> None:
        """Queue again a step that was held back."""
        self._queue(step)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """As in a thread: who stops waiting does not stop the call."""
        outcome: asyncio.Future[T] = self.create_future()
        self.create_task(_settle(outcome, lambda: func(*args)))
        return outcome

    def add_call(self, call: BlockingCall[Any]) -> None:
        self._calls = [one for one in self._calls if not one.is_over]
        self._calls.append(call)

    async def create_server(self, protocol_factory: Any, *_: Any, **options: Any) -> Any:
        assert self.network is not None
        return options["sock"].serve(protocol_factory)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Any, host: str, port: int, **_: Any
    ) -> Any:
        assert self.network is not None
        return await self.network.connect(protocol_factory, (host, port))

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **_: Any
    ) -> list[tuple[Any, ...]]:
        assert self.network is not None
        return self.network.addresses_of(host, port)

    def add(self, process: "Process") -> None:
        self._processes.append(process)

    def end(self) -> None:
        """The simulation is over: let everything go, so that it can be cancelled and freed."""
        self.is_over = True
        self.set_exception_handler(lambda loop, context: None)
        for call in self._calls:
            call.end()
        for process in self._processes:
            process.let_go()


class Process:
    """One operating-system process. `dies_at_step` kills it before that step of its own."""

    def __init__(self, name: str, *, dies_at_step: int | None = None) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        self.name = name
        self.is_dead = False
        self.is_stopped = False
        self.step_count = 0
        self.dies_at_step = dies_at_step
        self._loop = loop
        self.cpu: Cpu | None = None
        """Its core; None: steps take no time."""
        self._held: deque[Step] = deque()
        self._waiting: deque[Step] = deque()
        self._is_woken = False
        self._stopped_until_s = 0.0
        self.stopped_s = 0.0
        """For how long it was stopped in all, or will have been when it goes on."""
        self._mark: int | None = None
        self._at_mark: Callable[[], None]
        self._on_death: list[Callable[[], None]] = []
        self._context = Context()
        self._context.run(PROCESS.set, self)
        loop.add(self)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a coroutine as a task of this process."""
        return self._loop.create_task(coroutine, context=self._context.copy())

    def context(self) -> Context:
        """For what is to run as a step of this process."""
        return self._context.copy()

    def on_death(self, callback: Callable[[], None]) -> None:
        """Call back when this process is killed or has exited: its kernel does what is left."""
        self._on_death.append(callback)

    def kill(self) -> None:
        """SIGKILL: not one step more."""
        self.is_dead = True
        self.closed()

    def closed(self) -> None:
        """The kernel closes what the process had open: it was killed, or has exited by itself."""
        callbacks, self._on_death = self._on_death, []
        for callback in callbacks:
            callback()

    def at_step(self, step: int, act: Callable[[], None]) -> None:
        """Call `act` before that step of its own, once."""
        self._mark, self._at_mark = step, act

    def stop_for(self, seconds: float, on_going_on: Callable[[], None] | None = None) -> None:
        """SIGSTOP now, SIGCONT after `seconds`; of two stops that overlap the longer one holds."""
        now_s = self._loop.time()
        before_s = max(now_s, self._stopped_until_s)
        self._stopped_until_s = max(before_s, now_s + seconds)
        self.stopped_s += self._stopped_until_s - before_s
        self.is_stopped = True
        self._loop.call_later(seconds, self._go_on, on_going_on, context=Context())

    def take_step(self, step: Step) -> None:
        """Run one callback, unless this process is dead or stopped; later if its core is busy."""
        if self._loop.is_over:
            self.run_step(step._callback, step._args)
        elif self.cpu is not None and (self._waiting or self.cpu.is_busy(self._loop.time())):
            self._waiting.append(step)
            self._wake_up()
        else:
            self._run(step)

    def run_step(self, callback: Callable[..., object], args: Sequence[object]) -> None:
        self.step_count += 1
        callback(*args)

    def _run(self, step: Step) -> None:
        if self.step_count == self.dies_at_step and not self.is_dead:
            self.kill()
        if self.step_count == self._mark:
            self._mark = None
            self._at_mark()
        if self.is_dead or self.is_stopped:
            self._held.append(step)
            self._held.extend(self._waiting)
            self._waiting.clear()
            return
        callback = step._callback
        try:
            self.run_step(callback, step._args)
        finally:
            if self.cpu is not None:
                self.cpu.did(callback, self._loop.time())

    def _wake_up(self) -> None:
        """Go on when the core has done what it was given."""
        if not self._is_woken:
            assert self.cpu is not None
            self._is_woken = True
            self._loop.call_at(self.cpu.busy_until_s, self._work, context=Context())

    def _work(self) -> None:
        """Queue what fits into this moment: each as a step of its own."""
        self._is_woken = False
        if self._waiting and not self._loop.is_over:
            step = self._waiting.popleft()
            VirtualLoop.call_soon(self._loop, self._work_on, step, context=step._context)

    def _work_on(self, step: Step) -> None:
        """Run one step that had to wait, and see to the next."""
        assert self.cpu is not None
        if not step.cancelled():
            self._run(step)
        if not self._waiting:
            return
        if self.cpu.is_busy(self._loop.time()):
            self._wake_up()
        else:
            self._work()

    def let_go(self) -> None:
        """Queue again what was held back, in order."""
        self._held.extend(self._waiting)
        self._waiting.clear()
        while self._held:
            self._loop.go_on_with(self._held.popleft())

    def _go_on(self, on_going_on: Callable[[], None] | None) -> None:
        if self._loop.time() + RESOLUTION_S < self._stopped_until_s:
            return  # another stop lasts longer
        self.is_stopped = False
        if not self.is_dead:
            if on_going_on is not None and self._held:
                on_going_on()
            self.let_go()


def charge_bytes(count: int) -> None:
    """The step that runs hands over, or takes, so many bytes."""
    process = PROCESS.get(None)
    if process is not None and process.cpu is not None:
        process.cpu.charge_bytes(count)


def simulate(main: Coroutine[Any, Any, T], *, limit_s: float = LIMIT_S) -> T:
    """As `virtual_loop.run`, with processes; `main` itself belongs to none."""
    loop = ProcessLoop(limit_s)
    with _collector_at_rest(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            result = runner.run(main)
            gc.collect()  # a task whose failure was never asked for says so now, while it counts
        finally:
            loop.end()
    loop.raise_failure()
    return result


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """A quarter of a simulation's CPU time was Python's collector; what it finds can wait.

    What was there before stays frozen for a while: a look at all that a process of tests has loaded
    takes as long as many a simulation.
    """
    was_enabled = gc.isenabled()
    if next(_SIMULATED) % LOOKS_AT_ALL_EVERY == 0:
        gc.unfreeze()
    gc.collect()  # or garbage of the simulation before would be frozen too, and its memory kept
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def run_blocking(call: Callable[[], T]) -> T:
    """The result of blocking code, on a thread of the running process (`testing.blocking`).

    Its calls of stores are steps of the process; it may be killed or stopped at each.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessLoop)
    blocking = BlockingCall(call)
    loop.add_call(blocking)
    return await blocking.run()


async def _settle(outcome: "asyncio.Future[T]", call: Callable[[], T]) -> None:
    try:
        result = await run_blocking(call)
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        if not outcome.done():
            outcome.set_exception(error)
    else:
        if not outcome.done():
            outcome.set_result(result)
