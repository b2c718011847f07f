"""How late the event loop is: a beat every half second, and when it came instead.

Work that holds the loop up holds every client up, so this is the first figure to look at. Only a
broker that serves metrics has one.
"""

import asyncio

from logstore.histogram import Histogram

INTERVAL_S = 0.5


class LoopLag:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lateness = Histogram()
        self._loop = loop
        self._due_s = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due_s = self._loop.time() + INTERVAL_S
        self._handle = self._loop.call_at(self._due_s, self._on_timer)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _on_timer(self) -> None:
        self.lateness.add(max(0.0, self._loop.time() - self._due_s))
        self.start()
