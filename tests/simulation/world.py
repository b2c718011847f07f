"""One simulated world: stores, lives of brokers, clients, and somebody who means harm.

Safety phase: faults, kills, twins, while clients send and read. Then everything is healed, one more
broker starts, and it must get on: every client finishes, everything acknowledged is there.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import blake2b

from broker.cluster.controller import Controller
from logstore.chains.identity import Identity, ensure_identity
from logstore.chains.keys import segment_key
from logstore.clock import Clock
from logstore.errors import Corrupt, LogstoreError, NotFound, Refused
from logstore.history.delta import Tables
from logstore.log.log import Log
from logstore.objects.memory import MemoryObjects
from logstore.objects.store import BlockingObjectStore
from logstore.perform import Performer
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.rows import BROKER, CHAIN, BrokerRow, BrokerStatus, ChainRow, ChainStatus, chain_sk
from logstore.segments.format import HEADER_BYTES, SegmentKind, decode_header
from logstore.testing.audit import Audit, audit
from logstore.testing.history import History, Partition
from logstore.testing.simulated_broker import Attach, SimulatedBroker
from logstore.testing.simulated_rows import RowFaults, SimulatedRows, at_once
from logstore.testing.simulated_store import SimulatedStore, StoreFaults
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.simulation.plan import Plan, draw_plan

BROKER_ID = 7
HOUR_MS = 3_600_000
RATE_OFF_MAX = 0.02
START_S = 90.0
LIVENESS_S = 120.0
LIMIT_S = 3_000.0


class World:
    """Everything that one seed is made of."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.chance = random.Random(seed)
        self.plan = plan or draw_plan(self.chance)
        self.clock = VirtualClock()
        self.seen: Counter[str] = Counter()
        self.history = History(self.trace)
        self.violations: list[str] = []
        self.objects = MemoryObjects(self.clock)
        self.rows = MemoryRows()
        self.brokers = range(BROKER_ID, BROKER_ID + self.plan.brokers)
        self.stores = {broker: self._store() for broker in self.brokers}
        """The way of each broker to the store; what is stored is the same."""
        self.registries = {broker: self._registry() for broker in self.brokers}
        self.lives: list[SimulatedBroker] = []
        self.primaries: dict[int, SimulatedBroker | None] = dict.fromkeys(self.brokers)
        """The life of each broker that ought to serve."""
        self.attach: Attach | None = None
        self.tables: Callable[[BlockingObjectStore], Tables] | None = None
        """Opens the topics' tables for a broker; None: there are none."""
        self.controllers: dict[Log, Controller] = {}
        """Of every life there was."""
        self.is_over = False
        self.is_healed = False
        self.identity: Identity | None = None
        self.live_topics: dict[bytes, tuple[str, int]] = {}
        self.timestamps: dict[bytes, int] = {}
        self.lines: list[str] = []
        self._fenced: list[SimulatedBroker] = []
        self._lock = 0

    def _store(self) -> SimulatedStore:
        return SimulatedStore(self.objects, self.chance, self.plan.store, self.seen, self.trace)

    def _registry(self) -> SimulatedRows:
        return SimulatedRows(self.rows, self.chance, self.plan.rows, self.seen, self.trace)

    def trace(self, text: str) -> None:
        self.lines.append(f"{asyncio.get_running_loop().time():.6f} {text}")

    @property
    def digest(self) -> str:
        """Of everything that happened, in order."""
        return blake2b("\n".join(self.lines).encode()).hexdigest()

    def violate(self, text: str) -> None:
        self.trace(f"VIOLATION {text}")
        self.violations.append(text)

    def performer(self, broker: int = BROKER_ID) -> Performer:
        """For one life of a broker, or for somebody who reads by the same ways."""
        clock = self._new_clock()
        registry = RetryingRegistry(
            self.registries[broker],
            lambda: f"{self.chance.getrandbits(64):016x}",
            clock,
            self.chance,
        )
        return Performer(
            self.stores[broker],
            registry,
            clock,
            self.chance,
            lambda: self.chance.randbytes(16),
        )

    def _new_clock(self) -> Clock:
        if not self.plan.clocks_differ:
            return self.clock
        self.seen["clocks differ"] += 1
        off_ms = self.chance.randint(-HOUR_MS, HOUR_MS)
        return VirtualClock(
            EPOCH_MS + off_ms, rate=1 + self.chance.uniform(-RATE_OFF_MAX, RATE_OFF_MAX)
        )

    def heal(self) -> None:
        self.is_healed = True
        self._set_faults(StoreFaults(), RowFaults())

    def _set_faults(self, store: StoreFaults, rows: RowFaults) -> None:
        for one in self.stores.values():
            one.faults = store
        for other in self.registries.values():
            other.faults = rows

    async def create(self) -> None:
        """An empty log, made while all is well."""
        self._set_faults(StoreFaults(), RowFaults())
        self.identity = await self.performer().run(ensure_identity("memory:"))
        self._set_faults(self.plan.store, self.plan.rows)

    # Lives of the broker

    def spawn(
        self,
        broker: int = BROKER_ID,
        *,
        new_lock: bool = False,
        dies_at_step: int | None = None,
    ) -> SimulatedBroker:
        assert self.identity is not None
        self._lock += new_lock
        life = SimulatedBroker(
            f"life {len(self.lives)} of broker {broker}",
            self.performer(broker),
            self.identity,
            broker=broker,
            lock=f"lock {self._lock} of broker {broker}",
            settings=self.plan.settings,
            dies_at_step=dies_at_step,
            lingers_s=self.chance.choice((0.0, 0.0, 1.0, 4.0)),
            attach=self.attach,
            tables=self.tables,
        )
        self.trace(f"{life.process.name} starts lock={life.lock} dies_at={dies_at_step}")
        self.lives.append(life)
        return life

    async def start(
        self, broker: int = BROKER_ID, *, new_lock: bool = False, attempts_max: int = 60
    ) -> SimulatedBroker:
        """Start until a broker serves, as a service manager would."""
        for attempt in range(attempts_max):
            dies_at = None
            if not self.is_healed and attempt < 5 and self.chance.random() < 0.25:
                dies_at = self.chance.randrange(1, 600)
            life = self.spawn(broker, new_lock=new_lock and attempt == 0, dies_at_step=dies_at)
            if await self.until(partial(_is_settled, life), START_S):
                if life.is_serving:
                    self.primaries[broker] = life
                    self.seen["starts"] += 1
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
            await self.clock.sleep_s(self.chance.uniform(0, 1.0))
        raise AssertionError("no start succeeds")

    def judge_end(self, life: SimulatedBroker) -> None:
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
        """A broker stops for good only when somebody did fence it."""
        for life in self.lives:
            log = life.log
            if log is None or not log.fenced.is_set() or life in self._fenced:
                continue
            self._fenced.append(life)
            chain = at_once(self.rows.get(CHAIN, chain_sk(log.epoch)))
            broker = at_once(self.rows.get(BROKER, str(life.broker)))
            assert chain is not None and broker is not None
            is_open = ChainRow.of(chain).status is ChainStatus.OPEN
            row = BrokerRow.of(broker)
            is_named = row.epoch == log.epoch and row.status is not BrokerStatus.FENCED
            # Whoever finds an opening whose maker is slow to raise the row seals that chain.
            is_buried = self._has_seal(log.epoch)
            if is_open and is_named and not is_buried and not self.plan.flips_bits:
                self.violate(f"rule 2: {life.process.name} says it was fenced, nobody did it")

    def _has_seal(self, epoch: int) -> bool:
        try:
            front = self.objects.get_range(segment_key(epoch, 1), 0, HEADER_BYTES)
        except NotFound:
            return False
        return decode_header(front).kind is SegmentKind.SEAL

    @property
    def leases_hold(self) -> bool:
        """Whether nobody was taken for dead while its lease ran: a twin with its lock may be."""
        return not self.seen["twin"]

    @property
    def primary(self) -> SimulatedBroker | None:
        """The life of the first broker."""
        return self.primaries[BROKER_ID]

    def active_controller(self) -> SimulatedBroker | None:
        """The life that acts as the controller now."""
        for life in self.lives:
            controller = None if life.log is None else self.controllers.get(life.log)
            if life.is_serving and controller is not None and controller.is_active:
                return life
        return None

    def pick(
        self, partition: Partition | None = None, *, follower: bool = False
    ) -> SimulatedBroker | None:
        """A broker to connect to, zombies too; mostly the leader of `partition`, by somebody.

        With `follower` rather another replica.
        """
        serving = [life for life in self.lives if life.is_serving]
        if not serving:
            return None
        asked = self.chance.choice(serving)
        if partition is None or self.chance.random() < 0.1:
            return asked
        topic = None if asked.log is None else asked.log.topics_by_id.get(partition.topic_id)
        if topic is None or partition.number >= topic.partition_count:
            return asked
        row = topic.rows[partition.number]
        wanted = set(row.replicas) - {row.broker} if follower else {row.broker}
        suiting = [life for life in serving if life.broker in wanted]
        return self.chance.choice(suiting) if suiting else asked

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = self.clock.monotonic_s() + timeout_s
        while not condition():
            self._judge_fences()
            if self.clock.monotonic_s() >= deadline_s:
                return False
            await self.clock.sleep_s(0.05)
        return True

    # The end

    def audit(self) -> Audit:
        """What is stored, looked through."""
        return audit(self.objects, self.rows)

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


def is_gone(life: SimulatedBroker) -> bool:
    return life.process.is_dead or life.ended.is_set()


def _is_settled(life: SimulatedBroker) -> bool:
    return life.is_serving or is_gone(life)
