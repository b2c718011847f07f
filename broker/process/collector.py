"""When Python's garbage collector runs in a broker: often and briefly, the whole heap seldom.

A full collection looks at every object that may be part of a cycle: with 30,000 partitions it holds
the event loop for more than 100 ms. So objects that are old are frozen, which takes them out of
later collections:

    young       by Python's thresholds: some 30,000 new objects at a time
    old         objects that outlived two young collections; every second they are frozen
    everything  when the frozen objects have grown by a quarter, at most once in five minutes:
                cycles that became garbage when they were old are found here alone

Requests of clients make no cycles (`tests/broker/network/test_garbage.py`), nor do those to store
and registry that fail (`tests/logstore/wiring/test_garbage.py`), so little is found. They must not:
a cycle of objects that were alive when frozen, such as a Fetch that waits, stays for hours.
From Python 3.14 on the collector looks at the oldest generation in small steps by itself: there
objects are frozen once, at the start.
"""

import asyncio
import gc
import sys

IS_INCREMENTAL = sys.version_info >= (3, 14)
YOUNG_OBJECTS, YOUNG_COLLECTIONS = 10_000, 2
NEVER = 1_000_000_000
"""As a threshold: Python collects the oldest generation by no rule of its own."""
INCREMENTAL_THRESHOLDS = (50_000, 20, 100)
LOOK_S = 1.0
EVERYTHING_S = 300.0
GROWTH = 1.25


class Collector:
    """One per process."""

    def __init__(self) -> None:
        self._frozen_count = 0
        """After the last collection of everything."""
        self._everything_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Freeze what the start has made, and collect by the rules above from now on.

        At its default pace the collector takes a tenth of the time of small requests.
        """
        self.collect_everything(loop.time())
        gc.set_threshold(*thresholds())
        if not IS_INCREMENTAL and self._timer is None:
            self._look_later(loop)

    def look(self, now_s: float) -> None:
        """Freeze what is old, and collect everything if that is due."""
        _, _, moved_count = gc.get_count()
        if not moved_count:
            return
        if now_s >= self._everything_at_s and gc.get_freeze_count() > GROWTH * self._frozen_count:
            self.collect_everything(now_s)
        else:
            gc.collect(1)  # or young cycles would be frozen too
            gc.freeze()

    def collect_everything(self, now_s: float) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._frozen_count = gc.get_freeze_count()
        self._everything_at_s = now_s + EVERYTHING_S

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(LOOK_S, self._look_and_go_on, loop)

    def _look_and_go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self.look(loop.time())
        self._look_later(loop)


def thresholds() -> tuple[int, int, int]:
    if IS_INCREMENTAL:
        return INCREMENTAL_THRESHOLDS
    return YOUNG_OBJECTS, YOUNG_COLLECTIONS, NEVER
