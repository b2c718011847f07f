"""One life of a broker that serves a `Log`, as a process that can be killed, stopped, cut short.

Requests arrive as they would from connections: in order, each answered by a step of the process, so
a dead or stopped one answers nothing and its clients find that out by themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from logstore.epoch.log import Log, LogSettings, Topic
from logstore.errors import LogstoreError
from logstore.formats.broker_row import BrokerStatus
from logstore.objects.metered import StoreCounts
from logstore.protocol.chain.identity import Identity
from logstore.protocol.leading.start import BrokerInfo
from logstore.runners.step_runner import StepRunner
from logstore.stores.location import DirectoryLocation
from logstore.testing.process_loop import Process
from logstore.wiring.open import OpenLog

if TYPE_CHECKING:
    from logstore.history.delta import Tables
    from logstore.ports.objects import BlockingObjectStore

T = TypeVar("T")

Attach = Callable[[Log, asyncio.TaskGroup], None]
"""Starts what lives on a log: the controller."""

CLOSE_S = 30.0
DRAIN_S = 10.0


class _BrokerEnded(Exception):
    """Unwinds the tasks of a broker that is done."""


class SimulatedBroker:
    """`ended` is set when the process exits by itself; a killed one never says anything."""

    def __init__(
        self,
        name: str,
        runner: StepRunner,
        identity: Identity,
        *,
        broker: int,
        lock: str,
        settings: LogSettings,
        dies_at_step: int | None = None,
        lingers_s: float = 0.0,
        attach: Attach | None = None,
        tables: "Callable[[BlockingObjectStore], Tables] | None" = None,
    ) -> None:
        self.broker = broker
        self.lock = lock
        self.process = Process(name, dies_at_step=dies_at_step)
        self.ended = asyncio.Event()
        self.error: BaseException | None = None
        self.log: Log | None = None
        self.closed_cleanly = False
        self.drained = False
        self._opened = OpenLog(
            DirectoryLocation(Path("/simulated")),
            runner,
            identity,
            StoreCounts(),
            tables=tables,
        )
        self._me = BrokerInfo(broker, "localhost", 9092, "", lock)
        self._settings = settings
        self._lingers_s = lingers_s
        self._attach = attach
        self._stop = asyncio.Event()
        self.process.spawn(self._live())

    @property
    def is_serving(self) -> bool:
        """Whether a client's connection would be accepted (by a stopped process too)."""
        return self.log is not None and not self.process.is_dead and not self.ended.is_set()

    def stop(self) -> None:
        """SIGTERM."""
        self._stop.set()

    def ask(self, handler: Callable[[Log], Awaitable[T]]) -> "asyncio.Future[T]":
        """Have `handler` answer a request; the future may wait for ever."""
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.process.spawn(self._answer(handler, reply))
        return reply

    async def _answer(
        self, handler: Callable[[Log], Awaitable[T]], reply: "asyncio.Future[T]"
    ) -> None:
        assert self.log is not None
        try:
            result = await handler(self.log)
        except LogstoreError as error:
            if not reply.done():
                reply.set_exception(error)
        else:
            if not reply.done():
                reply.set_result(result)

    async def _live(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                log = await Log.start(self._opened, self._me, self._settings, tasks)
                self.log = log
                if self._attach is not None:
                    self._attach(log, tasks)
                await self._until_stopped(log)
                raise _BrokerEnded
        except* _BrokerEnded:
            pass
        except* (LogstoreError, AssertionError, LookupError, TypeError, ValueError) as group:
            self.error = _first(group)
        self.ended.set()

    def _successor(self, log: Log, topic: Topic, partition: int) -> int | None:
        """Any other broker that serves: where it goes matters to placement, not to safety."""
        others = [
            broker
            for broker, row in sorted(log.live_brokers().items())
            if broker != self.broker and row.status is BrokerStatus.SERVING
        ]
        return others[partition % len(others)] if others else None

    async def _until_stopped(self, log: Log) -> None:
        events = [asyncio.ensure_future(event.wait()) for event in (self._stop, log.fenced)]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        for future in events:
            future.cancel()
        if self._stop.is_set():
            self.drained = await log.drain(DRAIN_S, lambda: partial(self._successor, log))
            self.closed_cleanly = await log.close(CLOSE_S)
        await asyncio.sleep(self._lingers_s)  # connections are closed, tasks end


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
