"""Whether the disk that segments go to is full, and what need not wait for it: a person must act.

Puts go on all the same, so that all of it is committed once there is room again.
"""

import asyncio
from collections.abc import Callable

CLOSE_S = 2.0
"""So long a stop goes on trying. It says afterwards that not all could be committed."""


class FullDisk:
    """`is_full` tells of the last attempt of a put that is under way."""

    def __init__(self) -> None:
        self.is_full = False
        self.on_full: Callable[[], None] = lambda: None
        """Called when a put finds it full."""
        self._limit: asyncio.Timeout | None = None

    def found(self) -> None:
        """A put found it full."""
        if not self.is_full:
            self.is_full = True
            self.on_full()
            self._shorten()

    def ended(self) -> None:
        """A put got through."""
        self.is_full = False

    def shortens(self, limit: asyncio.Timeout) -> None:
        """From now on `limit` ends `CLOSE_S` after the disk was found full."""
        self._limit = limit
        if self.is_full:
            self._shorten()

    def _shorten(self) -> None:
        if self._limit is not None and not self._limit.expired():
            end_s = asyncio.get_running_loop().time() + CLOSE_S
            self._limit.reschedule(min(self._limit.when() or end_s, end_s))
