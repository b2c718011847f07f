"""One simulated world: stores, lives of brokers, clients, and an actor that does harm.

Safety phase: faults, kills, twins, while clients send and read. Then everything is healed, one more
broker starts, and it must get on: every client finishes, everything acknowledged is there.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import blake2b

from broker.cluster.controller import Controller
from broker.network.connection import ClientConnection
from broker.process.life import Serving
from logstore.epoch.log import Log
from logstore.epoch.table_queries import TableQueries
from logstore.errors import Corrupt, LogstoreError, NotFound, Refused
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus, chain_sk
from logstore.formats.keys import segment_key
from logstore.formats.segment import HEADER_BYTES, SegmentKind, decode_header
from logstore.history.delta import Tables
from logstore.objects.memory import MemoryObjects
from logstore.ports.clock import Clock
from logstore.ports.objects import BlockingObjectStore
from logstore.protocol.chain.identity import Identity, ensure_identity
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.audit import Audit, audit
from logstore.testing.cpu import Cpu
from logstore.testing.history import ClientHistory, Partition
from logstore.testing.simulated_network import NetworkFaults, SimulatedNetwork
from logstore.testing.simulated_rows import RowFaults, SimulatedRows, at_once
from logstore.testing.simulated_store import SimulatedStore, StoreFaults
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.simulation.memory import budget_bytes, held_bytes
from tests.simulation.plan import Plan, draw_plan
from tests.simulation.served import PORT, NoTables, ServedBroker

BROKER_ID = 7
CLOCK_OFF_MS_MAX = 3_000_000
"""Less than `message.timestamp.after.max.ms`: a client whose clock is right is never refused."""
RATE_OFF_MAX = 0.02
START_S = 90.0
WHOLE_READS_FROM = 30
"""Attempts of a start in a world whose reads are cut short and flipped."""
LIVENESS_S = 120.0
LIMIT_S = 3_000.0
TRIM_PERIOD_S = 3.0
RACKS = ("here", "there")


class World:
    """Everything that one seed is made of."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.rng = random.Random(seed)
        self.plan = plan or draw_plan(self.rng)
        self.clock = VirtualClock()
        self.seen: Counter[str] = Counter()
        self.history = ClientHistory(self.trace)
        self.violations: list[str] = []
        self.objects = MemoryObjects(self.clock)
        self.rows = self._rows()
        self.brokers = range(BROKER_ID, BROKER_ID + self.plan.brokers)
        self.stores = {broker: self._store() for broker in self.brokers}
        """The way of each broker to the store; what is stored is the same."""
        self.registries = {broker: self._registry() for broker in self.brokers}
        self.lives: list[ServedBroker] = []
        self.primaries: dict[int, ServedBroker | None] = dict.fromkeys(self.brokers)
        """The life of each broker that ought to serve."""
        self.tables: Callable[[BlockingObjectStore], Tables] | None = None
        """Opens the topics' tables for a broker; None: there are none."""
        self.trim_period_s = TRIM_PERIOD_S
        self.controllers: dict[Log, Controller] = {}
        """Of every life there was."""
        self.is_over = False
        self.is_healed = False
        self.identity: Identity | None = None
        self.live_topics: dict[bytes, tuple[str, int]] = {}
        self.timestamps: dict[bytes, int] = {}
        self.lines: list[str] = []
        self.group_offsets: dict[int, int] = {}
        """Of partitions of the main topic: what a group committed, as far as acknowledged."""
        self.group_leaders: dict[int, str] = {}
        """By generation of that group."""
        self.held_bytes_max = 0
        """Most that one broker held in memory for clients and stores."""
        self.network: SimulatedNetwork
        """From `create` on."""
        self._fenced: list[Log] = []
        self._epochs: dict[object, int] = {}
        self._lock = 0

    def _rows(self) -> MemoryRows:
        return MemoryRows()

    def draw_configs(self) -> dict[str, str]:
        """What a topic that is created says itself."""
        return {}

    def _store(self) -> SimulatedStore:
        return SimulatedStore(self.objects, self.rng, self.plan.store, self.seen, self.trace)

    def _registry(self) -> SimulatedRows:
        return SimulatedRows(self.rows, self.rng, self.plan.rows, self.seen, self.trace)

    def trace(self, text: str) -> None:
        self.lines.append(f"{asyncio.get_running_loop().time():.6f} {text}")

    @property
    def digest(self) -> str:
        """Of everything that happened, in order."""
        return blake2b("\n".join(self.lines).encode()).hexdigest()

    def violate(self, text: str) -> None:
        self.trace(f"VIOLATION {text}")
        self.violations.append(text)

    def hear_alarm(self, record: logging.LogRecord) -> None:
        """A broker warned its operator of something that does not pass by itself: is it so?"""
        text = f"{record.name}: {record.getMessage()}"
        if record.exc_info is not None:
            self.violate(f"{text} {record.exc_info[1]!r}")
            return
        self.trace(f"alarm {text}")
        if record.name == "broker.answers.alarms" and isinstance(record.args, tuple):
            topic_id, number, offset, *_ = record.args
            partition = Partition(bytes.fromhex(str(topic_id)), int(str(number)))
            is_deleted = self.history.is_deleted(partition.topic_id)
            if is_deleted or int(str(offset)) < self.history.start_asked(partition):
                self.seen["gone under a read"] += 1
                return
        if not self.plan.flips_bits:
            self.violate(f"false alarm: {text}")

    def runner(self, broker: int = BROKER_ID) -> StepRunner:
        """For one life of a broker, or for a reader by the same ways."""
        clock = self._new_clock()
        registry = RetryingRegistry(
            self.registries[broker],
            lambda: f"{self.rng.getrandbits(64):016x}",
            clock,
            self.rng,
        )
        return StepRunner(
            self.stores[broker],
            registry,
            clock,
            self.rng,
            lambda: self.rng.randbytes(16),
        )

    def _new_clock(self) -> Clock:
        if not self.plan.clocks_differ:
            return self.clock
        self.seen["clocks differ"] += 1
        off_ms = self.rng.randint(-CLOCK_OFF_MS_MAX, CLOCK_OFF_MS_MAX)
        return VirtualClock(
            EPOCH_MS + off_ms, rate=1 + self.rng.uniform(-RATE_OFF_MAX, RATE_OFF_MAX)
        )

    def heal(self) -> None:
        self.is_healed = True
        self._set_faults(StoreFaults(), RowFaults())
        self.network.faults = NetworkFaults()

    def _set_faults(self, store: StoreFaults, rows: RowFaults) -> None:
        for one in self.stores.values():
            one.faults = store
        for other in self.registries.values():
            other.faults = rows

    async def create(self) -> None:
        """An empty log, made while all is well."""
        self.network = SimulatedNetwork(self.rng, self.plan.network, self.seen)
        self._set_faults(StoreFaults(), RowFaults())
        self.identity = await self.runner().run(ensure_identity("memory:"))
        self._set_faults(self.plan.store, self.plan.rows)

    # Lives of the broker

    def spawn(
        self,
        broker: int = BROKER_ID,
        *,
        new_lock: bool = False,
        dies_at_step: int | None = None,
    ) -> ServedBroker:
        assert self.identity is not None
        self._lock += new_lock
        number = len(self.lives)
        runner = self.runner(broker)
        life = ServedBroker(
            f"life {number} of broker {broker}",
            runner,
            self.identity,
            self.network,
            (f"life-{number}", PORT),
            broker=broker,
            rack=RACKS[broker % len(RACKS)],
            lock=f"lock {self._lock} of broker {broker}",
            settings=self.plan.broker_settings,
            log_settings=self.plan.settings,
            open_tables=self.tables,
            table_queries=self.table_queries(runner),
            trim_period_s=self.trim_period_s,
            dies_at_step=dies_at_step,
            on_serving=self._serves,
        )
        if self.plan.slowness:
            life.process.cpu = Cpu(self.plan.slowness, partial(self._stands, life))
        self.trace(f"{life.process.name} starts lock={life.lock} dies_at={dies_at_step}")
        self.lives.append(life)
        return life

    async def start(
        self, broker: int = BROKER_ID, *, new_lock: bool = False, attempts_max: int = 60
    ) -> ServedBroker:
        """Start until a broker serves, as a service manager would."""
        for attempt in range(attempts_max):
            if attempt == WHOLE_READS_FROM and self.plan.flips_bits and not self.is_healed:
                # A start that replays a hundred segments hardly meets one good answer for each.
                whole = replace(self.plan.store, get_short=0.0, get_flipped=0.0)
                self._set_faults(whole, self.plan.rows)
                self.seen["reads were whole again for a start"] += 1
            dies_at = None
            if not self.is_healed and attempt < 5 and self.rng.random() < 0.25:
                dies_at = self.rng.randrange(1, 600)
            life = self.spawn(broker, new_lock=new_lock and attempt == 0, dies_at_step=dies_at)
            if await self.until(partial(_is_settled, life), START_S):
                if life.is_serving:
                    self.primaries[broker] = life
                    self.seen["starts"] += 1
                    if attempt >= WHOLE_READS_FROM and not self.is_healed:
                        self._set_faults(self.plan.store, self.plan.rows)
                    return life
            else:
                life.process.kill()
                self.seen["start took too long"] += 1
                if self.is_healed:
                    self.violate(f"liveness: {life.process.name} does not start")
            refused = isinstance(life.error, Refused)
            self.judge_end(life)
            other = next((o for o in self.lives if o.is_serving and o.broker == broker), None)
            if refused and other is not None:
                self.seen["twin refused"] += 1
                self.primaries[broker] = other
                return other
            await self.clock.sleep_s(self.rng.uniform(0, 1.0))
        raise AssertionError("no start succeeds")

    def _stands(self, life: ServedBroker, step: str, seconds: float) -> None:
        self.violate(f"the loop of {life.process.name} stood for {seconds:.2f} s: {step}")

    def table_queries(self, runner: StepRunner) -> TableQueries:
        """What retention and trimming of one broker ask of tables."""
        return NoTables()

    def _serves(self, life: ServedBroker, serving: Serving) -> None:
        log = serving.broker.log
        self.controllers[log] = serving.controller
        self._epochs[serving.broker.clients] = log.epoch
        self.seen["epochs after a fence"] += len(life.logs) > 1

    def count_trimming(self) -> None:
        for life in self.lives:
            if life.serving is not None:
                self.seen["trim points"] += life.serving.trimming.published_count
                self.seen["segments deleted"] += life.serving.trimming.deleted_count

    def epoch_behind(self, protocol: object) -> int:
        """The broker epoch that accepted a connection; 0 for none."""
        clients = protocol.clients if isinstance(protocol, ClientConnection) else None
        return self._epochs.get(clients, 0)

    def judge_end(self, life: ServedBroker) -> None:
        """A life that ended by itself: had it a right to?"""
        if not life.ended.is_set() or life.error is None:
            return
        error, life.error = life.error, None
        self.trace(f"{life.process.name} ended: {error!r}")
        self.seen[f"ended by {type(error).__name__}"] += 1
        if not isinstance(error, LogstoreError):
            self.violate(f"{life.process.name} broke: {error!r}")
        elif self.plan.flips_bits:
            return
        elif isinstance(error, Corrupt) or "restore" in str(error):
            self.violate(f"{life.process.name} raised a false alarm: {error!r}")

    def _judge_fences(self) -> None:
        """A broker stops for good only when another broker did fence it."""
        pairs = [(life, log) for life in self.lives for log in life.logs]
        for life, log in pairs:
            if not log.fenced.is_set() or log in self._fenced:
                continue
            self._fenced.append(log)
            chain = at_once(self.rows.get(CHAIN, chain_sk(log.epoch)))
            broker = at_once(self.rows.get(BROKER, str(life.broker)))
            assert chain is not None and broker is not None
            is_open = ChainRow.of(chain).status is ChainStatus.OPEN
            row = BrokerRow.of(broker)
            is_named = row.epoch == log.epoch and row.status is not BrokerStatus.FENCED
            # A broker that finds an opening whose maker is slow to raise the row seals that chain.
            is_buried = self._has_seal(log.epoch)
            if is_open and is_named and not is_buried and not self.plan.flips_bits:
                self.violate(f"rule 2: {life.process.name} says it was fenced, no broker did it")

    def _judge_memory(self) -> None:
        for life in self.lives:
            if life.serving is not None and life.is_serving:
                held, budget = held_bytes(life), budget_bytes(life, self.plan.settings)
                self.held_bytes_max = max(self.held_bytes_max, held)
                if held > budget:
                    self.violate(f"{life.process.name} holds {held} bytes of {budget}")

    def _has_seal(self, epoch: int) -> bool:
        try:
            front = self.objects.get_range(segment_key(epoch, 1), 0, HEADER_BYTES)
        except NotFound:
            return False
        return decode_header(front).kind is SegmentKind.SEAL

    @property
    def leases_hold(self) -> bool:
        """Whether no broker was taken for dead while its lease ran: a twin with its lock may be."""
        return not self.seen["twin"]

    @property
    def primary(self) -> ServedBroker | None:
        """The life of the first broker."""
        return self.primaries[BROKER_ID]

    def active_controller(self) -> ServedBroker | None:
        """The life that acts as the controller now."""
        for life in self.lives:
            controller = None if life.log is None else self.controllers.get(life.log)
            if life.is_serving and controller is not None and controller.is_active:
                return life
        return None

    def pick(self) -> ServedBroker | None:
        """A broker to connect to, zombies too."""
        serving = [life for life in self.lives if life.is_serving]
        return self.rng.choice(serving) if serving else None

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = self.clock.monotonic_s() + timeout_s
        while not condition():
            self._judge_fences()
            self._judge_memory()
            if self.clock.monotonic_s() >= deadline_s:
                return False
            await self.clock.sleep_s(0.05)
        return True

    # The end

    def audit(self) -> Audit:
        """What is stored, looked through."""
        return audit(self.objects, self.rows)

    def end(self) -> None:
        """No broker is to start again while the last tasks are cancelled."""
        for life in self.lives:
            life.stop()

    def check(self, *, all_was_read: bool = False) -> Audit:
        """Audit what is stored, and compare it with what clients saw."""
        found = self.audit()
        self.seen.update(found.seen)
        self.history.check_end(
            found.records, found.log_starts, found.begins, all_was_read=all_was_read
        )
        for topic_id, (name, partitions) in self.live_topics.items():
            if self.history.is_deleted(topic_id):
                continue
            there = [Partition(topic_id, number) in found.records for number in range(partitions)]
            if not all(there):
                self.violate(f"a topic that was created is not there name={name}")
        self.violations += found.violations + self.history.violations
        for store in self.stores.values():
            self.violations += store.violations
        return found


def is_gone(life: ServedBroker) -> bool:
    return life.process.is_dead or life.ended.is_set()


def _is_settled(life: ServedBroker) -> bool:
    return life.is_serving or is_gone(life)
