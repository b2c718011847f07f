"""Brokers with controllers on one log in memory, on the virtual loop: killed, stopped, counted."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from broker.cluster.controller import Controller
from broker.cluster.peers import OnGone, Peer, Peers
from broker.cluster.settings import ControllerSettings
from logstore.config.broker import BrokerSettings
from logstore.epoch.log import Log, LogSettings, Topic
from logstore.errors import Denied
from logstore.formats.lease_row import LEASE, LeaseRow
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.ports.objects import Buffer
from logstore.ports.registry import Condition, Row, RowStore
from logstore.protocol.chain.flush import FlushSettings
from logstore.protocol.chain.identity import Identity, ensure_identity
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.process_loop import simulate
from logstore.testing.simulated_broker import SimulatedBroker
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock

DEADLINE_S = 120.0
SETTINGS = ControllerSettings.of(BrokerSettings())


class CountedRows:
    """A `RowStore` that counts calls by what they do and the pk they do it to.

    Queries of the pk `denied` fail; an update takes `update_s`.
    """

    def __init__(self, rows: RowStore) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.denied = ""
        self.update_s = 0.0
        self._rows = rows

    async def get(self, pk: str, sk: str) -> Row | None:
        self.counts["get", pk] += 1
        return await self._rows.get(pk, sk)

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        self.counts["query", pk.partition("/")[0]] += 1
        if pk == self.denied:
            raise Denied(f"access denied: pk={pk}")
        return await self._rows.query(pk, prefix, after=after, limit=limit)

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.counts["put", pk] += 1
        await self._rows.put_if(pk, sk, row, conditions, write_id)

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.counts["update", pk] += 1
        await VirtualClock().sleep_s(self.update_s)
        await self._rows.update_if(pk, sk, sets, conditions, write_id)

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.counts["delete", pk] += 1
        await self._rows.delete_if(pk, sk, conditions, write_id)

    async def close(self) -> None:
        await self._rows.close()


class RemoteStore(MemoryStore):
    """A store that takes its time, and may stop to answer its one client."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(objects)
        self.takes_s = 0.0
        self.answers = asyncio.Event()
        self.answers.set()

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._travel()
        await super().create(key, parts)

    async def get(self, key: str) -> bytes:
        await self._travel()
        return await super().get(key)

    async def _travel(self) -> None:
        if self.takes_s:
            await VirtualClock().sleep_s(self.takes_s)
        await self.answers.wait()


class ScriptedPeers:
    """Tells of a death when the test says so."""

    listener = ""

    def __init__(self) -> None:
        self.watched: dict[int, Peer] = {}
        self.gone: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    def watch(self, peers: Any) -> None:
        self.watched = dict(peers)

    async def run(self, on_gone: OnGone) -> None:
        while True:
            on_gone(*await self.gone.get())


class Node:
    """One life of a broker; `controller` is there once it serves."""

    def __init__(self, cluster: "Cluster", broker: int, peers: Peers | None) -> None:
        self.broker = broker
        self.rows = CountedRows(cluster.rows)
        self.store = RemoteStore(cluster.objects)
        self.controller: Controller | None = None
        self.running: asyncio.Task[None] | None = None
        self._peers = peers
        self._settings = cluster.settings
        rng, clock = random.Random(broker), VirtualClock()
        runner = StepRunner(
            self.store,
            RetryingRegistry(self.rows, lambda: f"{broker} {rng.getrandbits(64)}", clock, rng),
            clock,
            rng,
            lambda: rng.randbytes(16),
        )
        self.life = SimulatedBroker(
            f"broker {broker}",
            runner,
            cluster.identity,
            broker=broker,
            lock=f"lock {broker}",
            settings=LogSettings(flush=FlushSettings(interval_s=0.01)),
            attach=self._attach,
        )

    def _attach(self, log: Log, tasks: asyncio.TaskGroup) -> None:
        self.controller = Controller(log, self._settings, self._peers)
        self.running = tasks.create_task(self.controller.run())

    @property
    def log(self) -> Log:
        assert self.life.log is not None
        return self.life.log

    @property
    def is_active(self) -> bool:
        is_gone = self.life.process.is_dead or self.life.ended.is_set()
        return not is_gone and self.controller is not None and self.controller.is_active

    def led(self) -> set[tuple[str, int]]:
        """Topic and number of the partitions that this broker serves."""
        return {
            (topic.name, number)
            for topic in self.log.topics.values()
            for number, leader in topic.leaders.items()
            if not leader.is_released
        }

    async def write(self, topic: str, partition: int) -> None:
        """Append one record to what this broker leads, without waiting for its commit."""
        leader = self.topic(topic).leaders[partition]
        data = memoryview(encode_batch([Record(0, EPOCH_MS, None, b"value")]))
        leader.append(data, check_batch(data, 0, len(data)))

    def topic(self, name: str) -> Topic:
        return self.log.topics[name]


class Cluster:
    def __init__(self, identity: Identity, rows: MemoryRows, objects: MemoryObjects) -> None:
        self.settings = replace(SETTINGS, balance_every_s=5.0)
        self.identity = identity
        self.rows = rows
        self.objects = objects
        self.nodes: dict[int, Node] = {}

    async def start(self, *brokers: int, peers: Peers | None = None) -> None:
        for broker in brokers:
            self.nodes[broker] = node = Node(self, broker, peers)
            await self.until(lambda node=node: node.controller is not None)  # type: ignore[misc]

    async def until(self, condition: Callable[[], bool]) -> float:
        """Wait until `condition` holds; how long that took."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await VirtualClock().sleep_s(0.01)
        return loop.time() - began_s

    @property
    def active(self) -> list[int]:
        """Which brokers take themselves for the controller."""
        return [broker for broker, node in self.nodes.items() if node.is_active]

    async def lease(self) -> LeaseRow:
        row = await self.rows.get(LEASE, "controller")
        assert row is not None
        return LeaseRow.of(row)

    async def create_topic(self, name: str, leaders: Sequence[int], replicas: int = 1) -> None:
        """Partition n is led by `leaders[n]`; any live broker makes the topic."""
        node = next(node for node in self.nodes.values() if not node.life.process.is_dead)

        async def create(log: Log) -> Topic:
            await self.until(lambda: set(leaders) <= set(log.live_brokers()))
            assignments = [(broker,) for broker in leaders]
            return await log.create_topic(
                name, len(leaders), {}, replicas=replicas, assignments=assignments
            )

        await node.life.ask(create)
        await self.until(lambda: self.are_all_led(name, len(leaders)))

    def are_all_led(self, name: str, partitions: int) -> bool:
        """Each by exactly one of the brokers that are alive."""
        led: Counter[tuple[str, int]] = Counter()
        for node in self.nodes.values():
            if not (node.life.process.is_dead or node.life.ended.is_set()):
                led.update(node.led())
        return all(led[name, number] == 1 for number in range(partitions))


def play(story: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        rows, objects, rng, clock = (
            MemoryRows(),
            MemoryObjects(VirtualClock()),
            random.Random(0),
            VirtualClock(),
        )
        registry = RetryingRegistry(rows, lambda: "identity", clock, rng)
        runner = StepRunner(MemoryStore(objects), registry, clock, rng, lambda: rng.randbytes(16))
        identity = await runner.run(ensure_identity("memory:"))
        await story(Cluster(identity, rows, objects))

    simulate(main(), limit_s=3000.0)
