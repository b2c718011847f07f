"""The controller: one broker at a time fences the dead, and keeps partitions where they should be.

    every second        renew the lease, or watch who holds it
    every half second   while we hold it: look at the cluster, decide, start actions;
                        at once when a broker's lease has run out
    every minute        read all chains' rows again; clear away half-done topics

Every broker runs one. All it does may be repeated, and done by one that has lost the lease without
knowing (safety rules 4 and 9): rows change on the terms of the row that was seen.
"""

import asyncio
import logging
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial

from broker.cluster.action_executor import ActionCounts, ActionExecutor, TakeoverFigures
from broker.cluster.action_queue import ActionQueue
from broker.cluster.decisions.cleaning import clean
from broker.cluster.decisions.controller_state import ControllerState, FirstSeen, Interval
from broker.cluster.decisions.decide import decide
from broker.cluster.decisions.placement import Successors
from broker.cluster.decisions.row_steps import read_chains, read_inventory
from broker.cluster.decisions.view import (
    SLICE_PARTITIONS,
    Action,
    ClusterView,
    DeleteTopic,
    PlacedPartition,
    PlacedPartitions,
    Reassign,
    Remind,
    RemoveOrphan,
    StepDown,
    TakeOver,
)
from broker.cluster.early_notice import EarlyNotice
from broker.cluster.lease_keeper import LeaseKeeper
from broker.cluster.log_port import ClusterLog, ClusterTopic
from broker.cluster.peers import NoPeers, Peers
from broker.cluster.settings import ControllerSettings
from broker.cluster.waiting import wait_for
from logstore.errors import LogstoreError
from logstore.formats.lease_row import LeaseRow
from logstore.protocol.steps import sliced
from logstore.protocol.topics.life import forget_deleted
from logstore.slices import Slices, parts_of
from logstore.troubles import LastingTroubles

INTERVAL_S = 0.5
CHAINS_S = 60.0
CLEANING_S = 60.0
REMIND_AGAIN_S = 10.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Term:
    """One period as the controller, and the state that is kept for as long."""

    memory: ControllerState
    first_seen: FirstSeen = field(default_factory=FirstSeen)
    """Of half-done topics that are to be cleared away."""
    cleaning: Interval = field(default_factory=lambda: Interval(CLEANING_S))
    chains_at_s: float | None = None


class _ControllerEnded(Exception):
    """Unwinds the controller's tasks."""


class Controller:
    """`peers` give early notice of deaths; without them leases alone do."""

    def __init__(
        self, log: ClusterLog, settings: ControllerSettings, peers: Peers | None = None
    ) -> None:
        self.settings = settings
        self._log = log
        self._runner = log.runner
        self._clock = log.runner.clock
        self._me = log.me.broker
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._keeper = LeaseKeeper(log, settings.lease_s, self._wake)
        self._notice = EarlyNotice(log, peers or NoPeers())
        self._executor = ActionExecutor(log)
        self._term: _Term | None = None
        self._places: PlacedPartitions | None = None
        self._are_places_old = False
        """Whether a topic has changed since they began to be gone through."""
        self._troubles = LastingTroubles()
        log.on_change(self._rows_changed)
        log.on_death(self._wake.set)

    @property
    def holder(self) -> int | None:
        """Which broker is the controller, as far as we know."""
        return self._keeper.holder

    @property
    def lease(self) -> LeaseRow | None:
        """Its lease, as far as we know; None: it is free."""
        return self._keeper.seen

    @property
    def is_active(self) -> bool:
        """Whether we are the controller, and may act as such."""
        return self._keeper.is_active

    @property
    def counts(self) -> ActionCounts:
        return self._executor.counts

    @property
    def takeovers(self) -> TakeoverFigures:
        return self._executor.takeovers

    @property
    def lease_changes(self) -> int:
        """How many times we became the controller."""
        return self._keeper.acquired

    async def run(self) -> None:
        """Until `stop`, or until our chain is fenced; gives the lease up at the end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keeper.run())
                tasks.create_task(self._notice.run())
                queue = ActionQueue(tasks, self._clock, lambda: self.is_active, self._count_failure)
                await self._run_passes(queue)
                raise _ControllerEnded
        except* _ControllerEnded:
            pass
        await self._keeper.give_up()

    def _count_failure(self) -> None:
        self.counts.failures += 1

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()

    # Looking

    async def _run_passes(self, queue: ActionQueue) -> None:
        fenced = self._log.fenced
        while not (fenced.is_set() or self._stopping.is_set()):
            self._notice.watch()
            self._keeper.hurry_if_orphaned()
            troubles: list[str] = []
            try:
                await self._pass(queue)
            except LogstoreError as error:
                if self.is_active:
                    troubles = [str(error)]
            for trouble in self._troubles.replace(troubles, self._clock.monotonic_s()):
                logger.warning("the controller cannot read the cluster: %s", trouble)
            await wait_for(self._wake, INTERVAL_S)

    async def _pass(self, queue: ActionQueue) -> None:
        if not self.is_active:
            self._term = None
            return
        term = self._term = self._term or _Term(
            ControllerState(balance=Interval(self.settings.balance_every_s))
        )
        now_s = self._clock.monotonic_s()
        if term.chains_at_s is None or now_s - term.chains_at_s >= CHAINS_S:
            self._executor.chains = await self._runner.run(read_chains())
            term.chains_at_s = now_s
        view = self._view(now_s, await self._placed())
        actions = await self._runner.run(sliced(decide(view, term.memory, self.settings.rules)))
        if not self._keeper.is_active:  # any more
            return
        self._choose_successors(view, actions, queue)
        await self._start_all(actions, queue)
        if term.cleaning.is_due(now_s):
            term.cleaning.end(now_s, found=False)
            queue.start("cleaning", partial(self._clean, term, queue))

    async def _placed(self) -> PlacedPartitions:
        """All partitions, of topics as they are while these are gone through in slices."""
        if self._places is not None:
            return self._places
        self._are_places_old = False
        places = PlacedPartitions()
        await self._runner.run(sliced(self._place_all(places)))
        self._places = None if self._are_places_old else places
        return places

    def _place_all(self, places: PlacedPartitions) -> Slices[None]:
        some_count = 0
        for topic in tuple(self._log.topics.values()):
            for rows in parts_of(tuple(enumerate(topic.rows)), SLICE_PARTITIONS):
                places.add(
                    PlacedPartition(topic.name, topic.topic_id, partition, topic.replicas, row)
                    for partition, row in rows
                )
                some_count += len(rows)
                if some_count >= SLICE_PARTITIONS:
                    some_count = 0
                    yield

    def _view(self, now_s: float, places: PlacedPartitions) -> ClusterView:
        return ClusterView(
            me=self._me,
            now_s=now_s,
            brokers=self._log.brokers,
            alive=self._log.liveness.alive | {self._me},
            chains=self._executor.chains,
            places=places,
            format_level=self._log.format_level,
        )

    def _rows_changed(self, topic: ClusterTopic) -> None:
        self._places, self._are_places_old = None, True

    def _choose_successors(
        self, view: ClusterView, actions: list[Action], queue: ActionQueue
    ) -> None:
        """Count the partitions of each broker again, unless running takeovers still count."""
        taken = {action.broker for action in actions if isinstance(action, TakeOver)}
        successors = (view.eligible or view.alive) - taken
        if queue.is_idle:
            self._executor.successors = Successors(successors, view.places.led)
        else:
            self._executor.successors.restrict(successors, view.places.led)

    # Acting

    async def _start_all(self, actions: list[Action], queue: ActionQueue) -> None:
        for action in actions:
            if isinstance(action, StepDown):
                logger.warning("stepping down: broker=%d reason=%s", self._me, action.reason)
                put_age_s = self.settings.rules.fencing.put_age_ms_max / 1000
                await self._keeper.give_up(abstain_s=put_age_s)
                return
            if not isinstance(action, Reassign):
                again_s = REMIND_AGAIN_S if isinstance(action, Remind) else INTERVAL_S
                queue.start(_key(action), partial(self._executor.act, action), again_s=again_s)
        moves = [action for action in actions if isinstance(action, Reassign)]
        if moves:
            queue.start("reassigning", partial(self._executor.reassign, moves))

    async def _clean(self, term: _Term, queue: ActionQueue) -> None:
        inventory = await self._runner.run(read_inventory())
        cleaning = clean(inventory, term.first_seen, self._clock.monotonic_s())
        for action in await self._runner.run(sliced(cleaning)):
            queue.start(_key(action), partial(self._executor.act, action))
        await self._runner.run(forget_deleted())


def _key(action: Action) -> Hashable:
    match action:
        case TakeOver(chain):
            return "takeover", chain
        case Remind(place):
            return "reminder", place.topic, place.partition
        case DeleteTopic(topic, topic_id):
            return "deletion", topic, topic_id.hex()
        case RemoveOrphan(topic_id):
            return "orphans", topic_id.hex()
        case _:
            return type(action).__name__
