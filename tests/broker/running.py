"""A broker in a thread of this process, on stores in memory; tests talk to it over real sockets.

    with running_broker() as running, running.connect() as client:
        response = client.call(3, MetadataRequest(None))

The store can be held, so that nothing commits until it is let go.
"""

import asyncio
import os
import random
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from broker.access.authorizer_choice import authorizer_of
from broker.access.standard_authorizer import StandardAuthorizer
from broker.answers.broker import Broker
from broker.handlers.dispatch import dispatch
from broker.network.authorizer import AllowAll, Resource, Rights
from broker.network.listeners import Listener, bind, parse_address
from broker.process.secured_listeners import SecuredListeners
from broker.process.server import Server
from logstore.config.broker import BrokerSettings
from logstore.config.listener_security import PROTOCOL_MAP, protocol_of
from logstore.epoch.log import BrokerInfo, FlushSettings, Log, LogSettings, Topic
from logstore.epoch.table_queries import ThreadedTableQueries
from logstore.formats.broker_row import Address
from logstore.objects.memory import MemoryObjects
from logstore.objects.metered import StoreCounts
from logstore.ports.clock import SystemClock
from logstore.ports.registry import Condition, Row
from logstore.protocol.chain.identity import ensure_identity
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.stores.location import DirectoryLocation
from logstore.wire.framing.client import Connection
from logstore.wire.framing.client_security import PLAIN, ClientSecurity
from logstore.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from logstore.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from logstore.wiring.open import OpenLog, open_tables
from tests.logstore.held_store import HeldStore
from tools import full_wire

T = TypeVar("T")

DEADLINE_S = 10.0 if "PLANTED" in os.environ else 20.0
"""Shorter where a planted bug prevents what is waited for."""
PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 1, 2, 3, 10
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 18, 19, 20, 22
SECRET = bytes(range(32))
"""Of the cluster."""
NOW_MS = SystemClock().now_ms()


class Chosen:
    """An authorizer whose rule a test may change while the broker runs."""

    def __init__(self, rule: Rights) -> None:
        self._rule = rule
        self._changes = 0

    @property
    def rule(self) -> Rights:
        return self._rule

    @rule.setter
    def rule(self, rule: Rights) -> None:
        self._rule = rule
        self._changes += 1

    @property
    def version(self) -> int:
        rule = self._rule
        return self._changes + (rule.version if isinstance(rule, StandardAuthorizer) else 0)

    @property
    def has_acls(self) -> bool:
        return isinstance(self._rule, StandardAuthorizer)

    def authorize(self, *asked: Any) -> bool:
        return self.rule.authorize(*asked)

    def authorize_on_any(
        self, principal: str, host: str, operation: Any, kind: Any, groups: Any = ()
    ) -> bool:
        if isinstance(self._rule, StandardAuthorizer):
            return self._rule.authorize_on_any(principal, host, operation, kind, groups)
        some = Resource(kind, "some topic")
        return self.rule.authorize(principal, host, operation, some, groups)


class LockedRows(MemoryRows):
    """Rows for brokers in several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def peek(self, pk: str, sk: str) -> Row:
        """A row that is there, for any thread."""
        with self._lock:
            return self._rows[pk, sk]

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        with self._lock:
            return await super().query(pk, prefix, after=after, limit=limit)

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        with self._lock:
            await super().put_if(pk, sk, row, conditions, write_id)

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        with self._lock:
            await super().update_if(pk, sk, sets, conditions, write_id)

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        with self._lock:
            await super().delete_if(pk, sk, conditions, write_id)


class Shared:
    """What all brokers of a cluster have in common."""

    def __init__(self) -> None:
        self.objects = MemoryObjects(SystemClock())
        self.rows = LockedRows()


class SetClock(SystemClock):
    """The clock of a host; its date can be set wrong."""

    ahead_ms = 0
    later_s = 0.0
    """How much time has passed beside what has."""

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


class Running:
    """The broker, as its thread made it; other threads reach into it by `do`."""

    def __init__(
        self,
        settings: Mapping[str, str],
        cache_bytes_max: int,
        *,
        broker: int = 1,
        rack: str = "",
        shared: Shared | None = None,
    ) -> None:
        self.node_id = broker
        self._rack = rack
        self.shared = shared or Shared()
        self.authorizer = Chosen(AllowAll())
        self.clock = SetClock()
        self.store: HeldStore
        self.log: Log
        self.broker: Broker
        self.listener: Listener
        self.secured: SecuredListeners
        self._settings = BrokerSettings(settings)
        self._cache_bytes_max = cache_bytes_max
        self._ready: Future[None] = Future()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="broker")
        self._is_let_go = False

    # In the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        clock, rng = SystemClock(), random.Random(self.node_id)
        self.store = HeldStore(self.shared.objects)
        registry = RetryingRegistry(self.shared.rows, lambda: f"{rng.getrandbits(64)}", clock, rng)
        runner = StepRunner(self.store, registry, clock, rng, lambda: rng.randbytes(16))
        identity = await runner.run(ensure_identity("memory:"))
        place = DirectoryLocation(Path("/memory"))
        opened = OpenLog(
            place, runner, identity, StoreCounts(), tables=partial(open_tables, place.url, None)
        )
        interval_s = self._settings.number("logstore.flush.interval.ms", 1) / 1000
        log_settings = LogSettings(
            flush=FlushSettings(
                interval_s=interval_s,
                segment_bytes_max=self._settings.number("logstore.segment.bytes"),
                backlog_bytes_max=self._settings.number("logstore.backlog.bytes"),
            ),
            cache_bytes_max=self._cache_bytes_max,
            producer_expiration_ms=self._settings.number("producer.id.expiration.ms"),
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                protocol = protocol_of("PLAINTEXT", self._settings.text(PROTOCOL_MAP))
                self.listener = bind(parse_address("127.0.0.1:0"), None, protocol=protocol)
                host, port = self.listener.public_address
                lock = f"the lock of broker {self.node_id}"
                known = {self.listener.name: Address(host, port)}
                me = BrokerInfo(self.node_id, host, port, self._rack, lock, known)
                self.log = await Log.start(opened, me, log_settings, tasks)
                await self._accept(tasks)
                raise _Ended
        except* _Ended:
            pass
        finally:
            self.listener.socket.close()

    async def _accept(self, tasks: asyncio.TaskGroup) -> None:
        self.authorizer.rule = authorizer_of(self._settings, self.log.rows)
        self.broker = Broker(
            self.log,
            self._settings,
            authorizer=self.authorizer,
            clock=self.clock,
            dispatch=dispatch,
            tasks=tasks,
            tables=ThreadedTableQueries(lambda: open_tables("/memory", None, self.shared.objects)),
            secret=SECRET,
        )
        self.secured = SecuredListeners([self.listener], self._settings, self.clock)
        server = Server(self.broker, [self.listener], self.secured.by_name)
        await server.listen()
        self._ready.set_result(None)
        await self._stop.wait()
        self.store.let_go()
        await server.stop(DEADLINE_S)
        self.secured.close()

    # From the test's thread

    def start(self) -> None:
        self._thread.start()
        self._ready.result(DEADLINE_S)

    def stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the broker does not end"

    def do(self, call: Callable[[], T]) -> T:
        """Run `call` in the broker's thread."""
        done: Future[T] = Future()

        def step() -> None:
            try:
                done.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised again in the other thread
                done.set_exception(error)

        self._loop.call_soon_threadsafe(step)
        return done.result(DEADLINE_S)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Until `condition` holds in the broker's thread, looked at after each of its wake-ups."""
        done: Future[None] = Future()
        deadline = self._loop.time() + DEADLINE_S

        def look() -> None:
            if condition():
                done.set_result(None)
            elif self._loop.time() > deadline:
                done.set_exception(AssertionError("the condition never held"))
            else:
                self._loop.call_later(0.002, look)

        self._loop.call_soon_threadsafe(look)
        done.result(2 * DEADLINE_S)

    def connect(self, security: ClientSecurity = PLAIN) -> full_wire.Connection:
        return full_wire.Connection.open(
            "127.0.0.1", self.listener.port, DEADLINE_S, security=security
        )

    def log_in(self, client: Connection, principal: str, *, groups: tuple[str, ...] = ()) -> None:
        """Let requests of this connection be those of `principal`."""
        host, port = client._peer.getsockname()

        def change() -> bool:
            mine = [c for c in self.broker.clients.connections if c.peer == f"{host}:{port}"]
            for one in mine:
                one.principal, one.groups = principal, groups
            return bool(mine)

        self.wait_until(change)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done in the broker's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        work = self.log.create_topic(name, partitions, configs or {})
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def delete_topic(self, name: str) -> None:
        work = self.log.delete_topic(name)
        asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def hold_store(self) -> None:
        self.do(self.store.hold)

    def let_store_go(self) -> None:
        self.do(self.store.let_go)


class _Ended(Exception): ...


@contextmanager
def running_broker(
    settings: Mapping[str, str] | None = None, *, cache_bytes_max: int = 1 << 26
) -> Iterator[Running]:
    running = Running(settings or {}, cache_bytes_max)
    running.start()
    try:
        yield running
    finally:
        running.stop()


# Requests that many tests make


def batch_of(*values: bytes | None, timestamp: int = NOW_MS, **fields: Any) -> bytes:
    """A batch with one record per value, all with the key b"k"."""
    records = [Record(i, timestamp, b"k", value) for i, value in enumerate(values)]
    return encode_batch(records, **fields)


def produce_request(
    name: str = "",
    batch: bytes | None = b"",
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 20_000,
    topic_id: bytes = bytes(16),
) -> ProduceRequest:
    data = PartitionProduceData(partition, batch)
    return ProduceRequest(None, acks, timeout_ms, [TopicProduceData(name, topic_id, [data])])


def produce(
    client: Connection, name: str, batch: bytes | None, *, version: int = 11, **fields: Any
) -> PartitionProduceResponse:
    """The outcome of one batch for one partition."""
    request = produce_request(name, batch, **fields)
    response: ProduceResponse = client.call(PRODUCE, request, version)
    return response.responses[0].partition_responses[0]


def fetch_request(
    name: str = "",
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    epoch: int = -1,
    topic_id: bytes = bytes(16),
) -> FetchRequest:
    wanted = FetchPartition(partition, epoch, offset, partition_max_bytes=partition_max_bytes)
    topics = [FetchTopic(name, topic_id, [wanted])]
    return FetchRequest(-1, max_wait_ms, min_bytes, max_bytes, isolation_level, topics=topics)


def fetch(client: Connection, name: str, *, version: int = 12, **fields: Any) -> PartitionData:
    """What one partition answers."""
    response: FetchResponse = client.call(FETCH, fetch_request(name, **fields), version)
    return response.responses[0].partitions[0]
