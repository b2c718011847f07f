"""Blocking code in virtual time: a thread that runs only while the event loop waits for it.

    loop:    ──run──┐          ┌─await request─┐          ┌── result ──
    thread:         └─ code ─▶ get(key)        └─ code ─▶ return

One of the two runs at any moment, so the same seed takes the same steps. A call of a store made in
the thread is a coroutine that the loop awaits in the task that began the thread: it takes virtual
time, and it belongs to that task's simulated process. A killed process never resumes its threads; a
stopped one resumes them when it goes on.
"""

import asyncio
import threading
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

_HERE = threading.local()
_STACK_BYTES = 1 << 20


class Killed(BaseException):
    """Unwinds a thread of a process that was killed, when the simulation is over."""


class _Turn:
    """A semaphore of one: a lock costs a tenth of `threading.Semaphore`."""

    def __init__(self) -> None:
        lock = threading.Lock()
        lock.acquire()
        self.acquire, self.release = lock.acquire, lock.release


class BlockingCall(Generic[T]):
    """One call of blocking code. `run` it once; `end` it when it will not be resumed."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._to_thread = _Turn()
        self._to_loop = _Turn()
        self._request: Coroutine[Any, Any, Any] | None = None
        self._answer: Any = None
        self._error: BaseException | None = None
        self._result: T | None = None
        self._is_killed = False
        self.is_over = False

    async def run(self) -> T:
        """Raises what the call raises."""
        threading.stack_size(_STACK_BYTES)
        thread = threading.Thread(target=self._context.run, args=(self._main,), daemon=True)
        thread.start()
        self._to_loop.acquire()
        while not self.is_over:
            assert self._request is not None
            self._answer = self._error = None
            try:
                self._answer = await self._request
            except GeneratorExit:
                self.end()
                raise
            except BaseException as error:  # noqa: BLE001 - the thread's to handle
                self._error = error
            if not self._has_ended():
                self._resume()
        if self._error is not None:
            raise self._error
        return cast(T, self._result)

    def wait_for(self, request: Coroutine[Any, Any, Any]) -> Any:
        """In the thread: the result of `request`, for which the loop runs."""
        if self._is_killed:
            request.close()
            raise Killed
        self._request = request
        self._to_loop.release()
        self._to_thread.acquire()
        if self._is_killed:
            raise Killed
        if self._error is not None:
            raise self._error
        return self._answer

    def _has_ended(self) -> bool:
        return self.is_over

    def end(self) -> None:
        """Unwind the thread, if it waits; nothing more is asked of any store."""
        if not self.is_over:
            self._is_killed = True
            self._resume()

    def _resume(self) -> None:
        self._to_thread.release()
        self._to_loop.acquire()

    def _main(self) -> None:
        _HERE.call = self
        # Code that asks for the running loop, as clocks do, is answered as on the loop's thread.
        events._set_running_loop(self._loop)
        self._error = None
        try:
            result = self._call()
            self._error = None
            self._result = result
        except BaseException as error:  # noqa: BLE001 - raised where the call is awaited
            self._error = error
        finally:
            events._set_running_loop(None)
            self.is_over = True
            self._to_loop.release()


def wait_for(request: Coroutine[Any, Any, T]) -> T:
    """In a thread of a `BlockingCall`: have the loop await `request`, and wait for it."""
    call: BlockingCall[Any] | None = getattr(_HERE, "call", None)
    if call is None:
        request.close()
        raise AssertionError("blocking code runs outside a thread of the simulation")
    result: T = call.wait_for(request)
    return result


class TurnLock:
    """A `threading.Lock` for such threads: who waits for it lets virtual time go on."""

    def __init__(self) -> None:
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held:
            wait_for(asyncio.sleep(0.001))
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
