"""Holds answers that would name a dead leader until the next one is known.

    a connection to a broker ends, or it is dead ──▶ unsettled ─┬─▶ no partition is led by it
                                                                └─▶ `WINDOW_S` is over

A client that loses a connection asks for metadata within milliseconds, and believes the answer: if
that names the broker which has just died, or no leader, librdkafka looks again after a second or
two. A takeover takes a tenth of that. So what names leaders waits for it, `HOLD_S` at most.

All that wait share one look at the partitions, every `LOOK_S`. While all is well there is none, and
a broker that flaps holds nothing: a connection that ends soon after it was made is no sign of
death.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from logstore.formats.partition_row import PartitionRow

HOLD_S = 0.3
WINDOW_S = 1.0
"""After a death: later, a leader that is missing is missing for another reason."""
LOOK_S = 0.01


class LedTopic(Protocol):
    @property
    def rows(self) -> Iterable[PartitionRow]: ...


class LeaderLog(Protocol):
    """`logstore.epoch.log.Log` is one."""

    @property
    def topics(self) -> Mapping[str, LedTopic]: ...

    def live_brokers(self) -> Collection[int]: ...

    def on_death(self, callback: Callable[[], None]) -> None: ...


def _nothing() -> None: ...


class LeaderSettling:
    def __init__(self, log: LeaderLog, tasks: asyncio.TaskGroup) -> None:
        self._log = log
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._lost: set[int] = set()
        """Brokers whose connection has ended, and that may be dead."""
        self._settled: asyncio.Future[None] | None = None
        self._until_s = 0.0
        self.look: Callable[[], None] = _nothing
        """Calls `lost` for what has ended and has not been noticed."""
        log.on_death(self._begin)

    def is_settled(self) -> bool:
        """Whether all leaders are alive as far as is known, after a look."""
        self.look()
        return self._settled is None

    async def wait(self) -> None:
        """Return when all leaders are alive as far as is known, or in `HOLD_S`."""
        if self._settled is not None:
            await asyncio.wait([self._settled], timeout=HOLD_S)

    def lost(self, broker: int) -> None:
        """A connection to a broker, which held for a while, has ended."""
        self._lost.add(broker)
        self._begin()

    def back(self, broker: int) -> None:
        """The broker was reached again: it lives."""
        self._lost.discard(broker)

    def _begin(self) -> None:
        self._until_s = self._loop.time() + WINDOW_S
        if self._settled is None:
            self._settled = self._loop.create_future()
            try:
                self._tasks.create_task(self._run(self._settled))
            except RuntimeError:  # the broker ends
                self._end()

    async def _run(self, settled: "asyncio.Future[None]") -> None:
        try:
            while self._loop.time() < self._until_s and self._is_open():
                await asyncio.wait([settled], timeout=LOOK_S)
        finally:
            self._end()

    def _is_open(self) -> bool:
        """Whether a partition is led by a broker that is dead, or may be."""
        trusted = frozenset(self._log.live_brokers()) - self._lost
        leaders = {row.broker for topic in self._log.topics.values() for row in topic.rows}
        return not leaders <= trusted

    def _end(self) -> None:
        self._lost.clear()
        settled, self._settled = self._settled, None
        if settled is not None and not settled.done():
            settled.set_result(None)
