"""Runs slices for one page on the event loop, a few milliseconds at a time, then answers."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from logstore.slices import Slices

STEP_S = 0.002
"""Longest that the event loop is held, but for one slice."""

T = TypeVar("T")


class Stepped(Generic[T]):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        slices: Slices[T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`done` is called with the result of `slices`, `failed` with what they raise."""
        self._loop = loop
        self._slices = slices
        self._done = done
        self._failed = failed

    def step(self) -> None:
        """The first step now, the others after all that is ready had its turn."""
        end_s = self._loop.time() + STEP_S
        try:
            while self._loop.time() <= end_s:
                next(self._slices)
        except StopIteration as stop:
            result: T = stop.value
        except Exception as error:  # noqa: BLE001 - for `failed`
            self._failed(error)
            return
        else:
            self._loop.call_soon(self.step)
            return
        self._done(result)
