"""Keeps the controller lease, or watches its holder: the runner of `leading.lease`."""

import asyncio
import logging

from broker.cluster.log_port import ClusterLog
from broker.cluster.waiting import wait_for
from logstore.errors import LogstoreError
from logstore.formats.broker_row import BrokerStatus
from logstore.formats.lease_row import LeaseRow
from logstore.formats.partition_row import NO_BROKER
from logstore.protocol.leading.lease import Lease
from logstore.runners.step_runner import outcome_of

CONTROLLER = "controller"
STEPS_PER_LEASE = 3
GIVE_UP_S = 2.0
ABSTAINED_LEASES = 2.0
"""After these: others look three times in one."""

logger = logging.getLogger(__name__)


class LeaseKeeper:
    """`on_active` is set whenever this broker becomes the controller."""

    def __init__(self, log: ClusterLog, lease_s: float, on_active: asyncio.Event) -> None:
        self._log = log
        self._me = log.me.broker
        self._runner = log.runner
        self._clock = log.runner.clock
        self._lease = Lease(CONTROLLER, owner=self._me, owner_epoch=log.epoch, lease_s=lease_s)
        self._lock = asyncio.Lock()
        self._step_now = asyncio.Event()
        self._on_active = on_active
        self._abstains_until_s = 0.0

    @property
    def is_active(self) -> bool:
        return self._lease.holds(self._clock.monotonic_s())

    @property
    def holder(self) -> int | None:
        return None if self.seen is None else self.seen.owner

    @property
    def seen(self) -> LeaseRow | None:
        """The lease as it stood when we last looked; None: it is free, or was never seen."""
        seen = self._lease.seen
        return None if seen is None or seen.owner == NO_BROKER else seen

    @property
    def acquired(self) -> int:
        return self._lease.acquired

    async def run(self) -> None:
        wait_s = self._lease.lease_s / STEPS_PER_LEASE
        while True:
            was_active = self.is_active
            await self._step()
            if self._lease.is_too_slow:
                await self._hand_over()
            if self.is_active and not was_active:
                logger.warning("this broker is the controller now: broker=%d", self._me)
                self._on_active.set()
            # Watchers that look at the same time would race for it at the same time.
            spread = 1.0 if self.is_active else 0.8 + self._runner.rng.random() / 5
            await wait_for(self._step_now, wait_s * spread)

    def hurry_if_orphaned(self) -> None:
        """Where the holder is known to be dead, do not wait for our turn to look."""
        seen = self._lease.seen
        if seen is None or self._lease.is_mine or seen.owner == NO_BROKER:
            return
        if self._is_dead(seen.owner, seen.owner_epoch):
            self._step_now.set()

    async def give_up(self, *, abstain_s: float = 0.0) -> None:
        """Let another have it, and do not ask for it for a while."""
        self._abstains_until_s = self._clock.monotonic_s() + abstain_s
        try:
            async with asyncio.timeout(GIVE_UP_S), self._lock:
                await outcome_of(self._runner.run(self._lease.give_up()))
        except TimeoutError:
            return  # it runs out by itself

    async def _hand_over(self) -> None:
        logger.warning(
            "handing the controller lease over, renewing it takes too long to act under it: "
            "broker=%d lease_s=%g",
            self._me,
            self._lease.lease_s,
        )
        await self.give_up(abstain_s=ABSTAINED_LEASES * self._lease.lease_s)

    def _may_apply(self) -> bool:
        if self._clock.monotonic_s() < self._abstains_until_s:
            return False
        row = self._log.brokers.get(self._me)
        is_leaving = row is not None and row.status is not BrokerStatus.SERVING
        return self._lease.is_mine or not is_leaving

    async def _step(self) -> None:
        try:
            async with asyncio.timeout(self._lease.lease_s), self._lock:
                now_s, applies = self._clock.monotonic_s(), self._may_apply()
                await self._runner.run(self._lease.step(now_s, self._is_dead, applies=applies))
        except (LogstoreError, TimeoutError) as error:
            logger.debug("the controller lease can be neither renewed nor read: %s", error)
        else:
            self._lease.note_ended(self._clock.monotonic_s(), applied=applies)

    def _is_dead(self, broker: int, epoch: int) -> bool:
        if not self._log.brokers:
            return False  # nothing is known yet
        row = self._log.brokers.get(broker)
        return row is None or row.epoch > epoch or not self._log.liveness.is_alive(broker)
