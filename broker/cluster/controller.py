"""The controller: one broker at a time fences the dead, and keeps partitions where they should be.

    every second        renew the lease, or watch who holds it
    every half second   while we hold it: look at the cluster, decide, start what is to be done
    every minute        read all chains' rows anew; clear away what was left half done

Every broker runs one. All it does may be repeated, and done by one that has lost the lease without
knowing (safety rules 4 and 9): rows change on the terms of the row that was seen.
"""

import asyncio
import logging
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from broker.cluster.acting import Acting, Counts, wait_for
from broker.cluster.balance import BalanceRules
from broker.cluster.cleaning import clean
from broker.cluster.decide import Rules, decide
from broker.cluster.desk import Desk
from broker.cluster.fencing import FencingRules
from broker.cluster.log_port import ClusterLog, ClusterTopic
from broker.cluster.memory import Memory, Sightings, Turn
from broker.cluster.peers import NoPeers, Peer, Peers
from broker.cluster.placement import Heirs
from broker.cluster.row_steps import read_broker, read_chains, read_inventory
from broker.cluster.view import (
    Action,
    DeleteTopic,
    Place,
    Places,
    Reassign,
    Remind,
    RemoveOrphan,
    StepDown,
    TakeOver,
    View,
)
from logstore.config.broker import BrokerSettings
from logstore.errors import LogstoreError
from logstore.leases.lease import Lease
from logstore.log.topics import forget_deleted
from logstore.perform import outcome_of
from logstore.rows import NOBODY, BrokerStatus

CONTROLLER = "controller"
LEASE_S = 3.0
STEPS_PER_LEASE = 3
LOOK_S = 0.5
CHAINS_S = 60.0
CLEANING_S = 60.0
GIVE_UP_S = 2.0
REMIND_AGAIN_S = 10.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    rules: Rules = Rules(FencingRules(10_000), BalanceRules(True, 10), 600.0)
    balance_every_s: float = 30.0
    lease_s: float = LEASE_S

    @staticmethod
    def of(settings: BrokerSettings) -> "ControllerSettings":
        return ControllerSettings(
            rules=Rules(
                FencingRules(settings.number("logstore.put.age.max.ms")),
                BalanceRules(
                    settings.flag("auto.leader.rebalance.enable"),
                    settings.number("leader.imbalance.per.broker.percentage"),
                ),
                settings.number("logstore.broker.gone.ms") / 1000,
            ),
            balance_every_s=settings.number("leader.imbalance.check.interval.seconds"),
        )


@dataclass(slots=True)
class _Term:
    """One stretch of time as the controller, and what is remembered for as long."""

    memory: Memory
    cleaning: Sightings = field(default_factory=Sightings)
    chains_at_s: float | None = None


class _Ended(Exception):
    """Unwinds the controller's tasks."""


class Controller:
    def __init__(
        self,
        log: ClusterLog,
        settings: ControllerSettings | None = None,
        peers: Peers | None = None,
    ) -> None:
        self.settings = settings or ControllerSettings()
        self._log = log
        self._performer = log.performer
        self._clock = log.performer.clock
        self._me = log.me.broker
        self._peers = peers or NoPeers()
        self._lease = Lease(
            CONTROLLER, owner=self._me, owner_epoch=log.epoch, lease_s=self.settings.lease_s
        )
        self._lease_lock = asyncio.Lock()
        self._abstains_until_s = 0.0
        self._acting = Acting(log)
        self._term: _Term | None = None
        self._cleaning = Turn(CLEANING_S)
        self._places: Places | None = None
        self._stopping = asyncio.Event()
        self._look_now = asyncio.Event()
        self._step_now = asyncio.Event()
        log.on_change(self._rows_changed)

    @property
    def holder(self) -> int | None:
        """Who is the controller, as far as we know."""
        seen = self._lease.seen
        return None if seen is None or seen.owner == NOBODY else seen.owner

    @property
    def is_active(self) -> bool:
        """Whether we are the controller, and may act as such."""
        return self._lease.holds(self._clock.monotonic_s())

    @property
    def counts(self) -> Counts:
        return self._acting.counts

    @property
    def lease_changes(self) -> int:
        """How many times we became the controller."""
        return self._lease.acquired

    async def run(self) -> None:
        """Until `stop`, or until our chain is fenced; gives the lease up at the end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_lease())
                tasks.create_task(self._peers.run(self._seems_gone(tasks)))
                await self._look_on(Desk(tasks, self._clock, lambda: self.is_active))
                raise _Ended
        except* _Ended:
            pass
        await self._give_up()

    def stop(self) -> None:
        self._stopping.set()
        self._look_now.set()

    # The lease

    async def _keep_lease(self) -> None:
        wait_s = self.settings.lease_s / STEPS_PER_LEASE
        while True:
            now_s = self._clock.monotonic_s()
            was_active = self.is_active
            if self._lease.is_mine or now_s >= self._abstains_until_s:
                await self._step(now_s)
            if self.is_active and not was_active:
                logger.warning("this broker is the controller now: broker=%d", self._me)
                self._look_now.set()
            # Watchers that look at the same time would race for it at the same time.
            spread = 1.0 if self.is_active else 0.8 + self._performer.chance.random() / 5
            await wait_for(self._step_now, wait_s * spread)

    async def _step(self, now_s: float) -> None:
        try:
            async with self._lease_lock, asyncio.timeout(self.settings.lease_s):
                await self._performer.run(self._lease.step(now_s, self._is_dead))
        except (LogstoreError, TimeoutError) as error:
            logger.debug("the lease can be neither renewed nor watched: %s", error)

    async def _give_up(self) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_S), self._lease_lock:
                await outcome_of(self._performer.run(self._lease.give_up()))
        except TimeoutError:
            return  # it runs out by itself

    def _is_dead(self, broker: int, epoch: int) -> bool:
        row = self._log.brokers.get(broker)
        if not self._log.brokers:
            return False  # nothing is known yet
        return row is None or row.epoch > epoch or not self._log.liveness.is_alive(broker)

    # Looking

    async def _look_on(self, desk: Desk) -> None:
        fenced = self._log.fenced
        while not (fenced.is_set() or self._stopping.is_set()):
            self._peers.watch(self._whom_to_watch())
            try:
                await self._look(desk)
            except LogstoreError as error:
                logger.warning("the controller cannot look: %s", error)
            await wait_for(self._look_now, LOOK_S)

    async def _look(self, desk: Desk) -> None:
        if not self.is_active:
            self._term = None
            seen = self._lease.seen
            if seen is not None and seen.owner != NOBODY and not self._lease.is_mine:
                if self._is_dead(seen.owner, seen.owner_epoch):
                    self._step_now.set()
            return
        term = self._term = self._term or self._begin_term()
        now_s = self._clock.monotonic_s()
        if term.chains_at_s is None or now_s - term.chains_at_s >= CHAINS_S:
            self._acting.chains = await self._performer.run(read_chains())
            term.chains_at_s = now_s
        view = self._view(now_s)
        actions = decide(view, term.memory, self.settings.rules)
        self._choose_heirs(view, actions, desk)
        await self._start_all(actions, desk)
        if self._cleaning.is_due(now_s):
            self._cleaning.end(now_s, found=False)
            desk.start("cleaning", lambda: self._clean(term, desk))

    def _begin_term(self) -> _Term:
        return _Term(Memory(balance=Turn(self.settings.balance_every_s)))

    def _view(self, now_s: float) -> View:
        places = self._places = self._places or Places(self._all_places())
        return View(
            me=self._me,
            now_s=now_s,
            brokers=self._log.brokers,
            alive=self._log.liveness.alive | {self._me},
            chains=self._acting.chains,
            places=places,
        )

    def _all_places(self) -> Iterator[Place]:
        for topic in self._log.topics.values():
            for partition, row in enumerate(topic.rows):
                yield Place(topic.name, topic.topic_id, partition, topic.replicas, row)

    def _rows_changed(self, topic: ClusterTopic) -> None:
        self._places = None

    def _choose_heirs(self, view: View, actions: list[Action], desk: Desk) -> None:
        """Anew when nobody is about to choose among the last ones."""
        taken = {action.broker for action in actions if isinstance(action, TakeOver)}
        heirs = (view.eligible or view.alive) - taken
        if desk.is_idle:
            self._acting.heirs = Heirs(heirs, view.places.led)
        else:
            self._acting.heirs.keep(heirs)

    # Acting

    async def _start_all(self, actions: list[Action], desk: Desk) -> None:
        acting = self._acting
        for action in actions:
            if isinstance(action, StepDown):
                logger.warning("stepping down: broker=%d reason=%s", self._me, action.reason)
                put_age_s = self.settings.rules.fencing.put_age_ms_max / 1000
                self._abstains_until_s = self._clock.monotonic_s() + put_age_s
                await self._give_up()
            elif not isinstance(action, Reassign):
                again_s = REMIND_AGAIN_S if isinstance(action, Remind) else LOOK_S
                desk.start(_key(action), lambda one=action: acting.act(one), again_s=again_s)
        moves = [action for action in actions if isinstance(action, Reassign)]
        if moves:
            desk.start("reassigning", lambda: acting.reassign(moves))

    async def _clean(self, term: _Term, desk: Desk) -> None:
        inventory = await self._performer.run(read_inventory())
        for action in clean(inventory, term.cleaning, self._clock.monotonic_s()):
            desk.start(_key(action), lambda one=action: self._acting.act(one))
        await self._performer.run(forget_deleted())

    # Early notice

    def _whom_to_watch(self) -> dict[int, Peer]:
        """The controller watches everybody, everybody the controller."""
        found = {}
        for broker, row in self._log.brokers.items():
            is_wanted = self.is_active or broker == self.holder
            is_there = row.status is BrokerStatus.SERVING and self._log.liveness.is_alive(broker)
            if broker != self._me and is_wanted and is_there:
                found[broker] = Peer(broker, row.epoch, row.host, row.port)
        return found

    def _seems_gone(self, tasks: asyncio.TaskGroup):  # type: ignore[no-untyped-def]
        asked: set[tuple[int, int]] = set()

        async def confirm(broker: int, epoch: int) -> None:
            row = await outcome_of(self._performer.run(read_broker(broker)))
            asked.discard((broker, epoch))
            if row is None or isinstance(row, LogstoreError) or row.epoch != epoch:
                return
            if row.status is BrokerStatus.SERVING and self._log.liveness.mark_dead(broker, epoch):
                logger.warning("process is gone: broker=%d epoch=%d", broker, epoch)
                self._step_now.set()
                self._look_now.set()

        def seems_gone(broker: int, epoch: int) -> None:
            if (broker, epoch) not in asked and self._log.liveness.is_alive(broker):
                asked.add((broker, epoch))
                tasks.create_task(confirm(broker, epoch))

        return seems_gone


def _key(action: Action) -> Hashable:
    match action:
        case TakeOver(chain):
            return "takeover", chain
        case Remind(place):
            return "reminder", place.key
        case DeleteTopic(topic, topic_id):
            return "deletion", topic, topic_id
        case RemoveOrphan(topic_id, partition):
            return "orphan", topic_id, partition
        case _:
            return type(action).__name__
