"""One simulated process of a broker: `broker.process.life` on simulated stores and network.

It restarts by itself after a fence, as `logstore serve` does. A client reaches it at `address`,
while it serves and, as a zombie, for as long as it does not know better.
"""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from broker.network.listeners import Listener
from broker.process.life import FAILED, Host, Serving, live_until_stopped
from logstore.config.broker import BrokerSettings
from logstore.epoch.log import Log, LogSettings
from logstore.epoch.table_queries import TableQueries, VerifiedEnds
from logstore.errors import LogstoreError
from logstore.history.delta import Tables
from logstore.history.forms.snapshot import Snapshot
from logstore.objects.metered import StoreCounts
from logstore.ports.objects import BlockingObjectStore
from logstore.protocol.chain.identity import Identity
from logstore.runners.step_runner import StepRunner
from logstore.stores.location import DirectoryLocation
from logstore.testing.process_loop import Process
from logstore.testing.simulated_network import Name, SimulatedNetwork
from logstore.wiring.open import OpenLog

T = TypeVar("T")

PORT = 9092


class NoTables:
    """`TableQueries` of a world in which no topic has a table."""

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        return None

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        return VerifiedEnds({}, (), {})


OnServing = Callable[["ServedBroker", Serving], None]


class ServedBroker:
    """`ended` is set when the process exits by itself; a killed one never says anything."""

    def __init__(
        self,
        name: str,
        runner: StepRunner,
        identity: Identity,
        network: SimulatedNetwork,
        address: Name,
        *,
        broker: int,
        rack: str,
        lock: str,
        settings: BrokerSettings,
        log_settings: LogSettings,
        open_tables: Callable[[BlockingObjectStore], Tables] | None,
        table_queries: TableQueries,
        trim_period_s: float,
        dies_at_step: int | None = None,
        on_serving: OnServing,
    ) -> None:
        self.broker = broker
        self.lock = lock
        self.address = address
        self.process = Process(name, dies_at_step=dies_at_step)
        self.ended = asyncio.Event()
        self.error: BaseException | None = None
        self.serving: Serving | None = None
        """Of its newest epoch that accepted connections."""
        self.logs: list[Log] = []
        """Of all its epochs that did."""
        self.closed_cleanly = False
        self.drained = False
        self.said: list[str] = []
        self._stop = asyncio.Event()
        self._on_serving = on_serving
        sock = network.bind(address, self.process)
        self._host = Host(
            broker=broker,
            rack=rack,
            url="simulated",
            settings=settings,
            log_settings=log_settings,
            opened=OpenLog(
                DirectoryLocation(Path("/simulated")),
                runner,
                identity,
                StoreCounts(),
                tables=open_tables,
            ),
            listeners=[Listener("PLAINTEXT", *address, None, cast(socket.socket, sock))],
            tables=table_queries,
            clock=runner.clock,
            stop=self._stop,
            lock=lock,
            say=self.said.append,
            on_serving=self._serves,
            trim_period_s=trim_period_s,
            ids=random.Random(runner.rng.getrandbits(64)),
        )
        self.process.spawn(self._live())

    @property
    def log(self) -> Log | None:
        """Of its newest epoch."""
        return self.logs[-1] if self.logs else None

    @property
    def is_serving(self) -> bool:
        """Whether a client's connection would be accepted (by a stopped process too)."""
        return self.log is not None and not self.process.is_dead and not self.ended.is_set()

    def stop(self) -> None:
        """SIGTERM."""
        self._stop.set()

    def ask(self, handler: Callable[[Log], Awaitable[T]]) -> "asyncio.Future[T]":
        """Have `handler` act inside the process; the future may wait for ever."""
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

    def _serves(self, serving: Serving) -> None:
        self.serving = serving
        self.logs.append(serving.broker.log)
        self._on_serving(self, serving)

    async def _live(self) -> None:
        try:
            code = await live_until_stopped(self._host)
        except (LogstoreError, AssertionError, LookupError, TypeError, ValueError) as error:
            self.error = error
        except BaseExceptionGroup as group:
            self.error = _first(group)
        else:
            log = self.log
            self.closed_cleanly = code != FAILED and log is not None and not log.fenced.is_set()
            self.drained = self.closed_cleanly and log is not None and log.release_count > 0
        self.ended.set()
        self.process.closed()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
