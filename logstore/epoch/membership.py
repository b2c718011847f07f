"""This broker's membership: its heartbeat, its read lease, and its end by fencing.

The heartbeat comes from the very loop that serves clients, so one that hangs is taken for dead. A
broker that cannot renew keeps producing: its next put fails if it was fenced. But its answers may
be out of date, so before it answers a fetch it looks for a seal (safety rule 9).
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import suppress

from logstore.epoch.catalog import Catalog
from logstore.epoch.followers import Followers
from logstore.epoch.writer import ChainWriter
from logstore.errors import ConditionFailed, Fenced, LogstoreError, NoRoom, Unavailable
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.ports.registry import Comparison, Row
from logstore.protocol.chain.find_seal import find_seal
from logstore.protocol.leading.start import LEASE_S
from logstore.runners.step_runner import StepRunner
from logstore.troubles import LastingTroubles

HEARTBEAT_S = LEASE_S / 3
"""From the beginning of one heartbeat to that of the next, whatever the outcome of the first."""
NOT_RENEWED = "the lease is not renewed"

logger = logging.getLogger(__name__)


class Heartbeats:
    """The broker's row, moved on and on; from its first writing to the end of the process."""

    def __init__(self, runner: StepRunner, broker: int, epoch: int, last: int) -> None:
        self.broker = broker
        self._runner = runner
        self._epoch = epoch
        self._last = last

    async def send(
        self,
        status: BrokerStatus,
        put_age_s: float = 0.0,
        committed_end: int = 0,
        followed: Sequence[int] = (),
        feed: int = 0,
    ) -> None:
        """Raises `ConditionFailed` when the row is a successor's, or says that we are fenced.

        Several may be under way. One that lands after a later one changes nothing any more.
        """
        self._last += 1
        sets: Row = {
            "heartbeat": self._last,
            "status": status.value,
            "put_age_ms": int(put_age_s * 1000),
            "committed_end": committed_end,
            "followed": json.dumps(list(followed), separators=(",", ":")),
            "feed": feed,
        }
        try:
            await self._runner.registry.update_if(
                BROKER,
                str(self.broker),
                sets,
                Comparison("epoch", "=", self._epoch),
                Comparison("status", "!=", BrokerStatus.FENCED.value),
                Comparison("heartbeat", "<", self._last),
            )
        except ConditionFailed as failed:
            if failed.current is None or not self._may_renew(BrokerRow.of(failed.current)):
                raise

    def _may_renew(self, row: BrokerRow) -> bool:
        return row.epoch == self._epoch and row.status is not BrokerStatus.FENCED

    async def run_while_starting(self) -> None:
        """Until it is cancelled, or refused: the start fails by that at its end."""
        with suppress(ConditionFailed):
            while True:
                await self._runner.clock.sleep_s(HEARTBEAT_S)
                with suppress(Unavailable, TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_S):
                        await self.send(BrokerStatus.SERVING)


class Membership:
    def __init__(
        self,
        runner: StepRunner,
        writer: ChainWriter,
        catalog: Catalog,
        followers: Followers,
        heartbeats: Heartbeats,
    ) -> None:
        """Heartbeats say up to which version the `catalog` has the change feed, and which chains
        of others consumers can read here, by `followers`.
        """
        self.status = BrokerStatus.SERVING
        self.has_no_room = False
        """Whether the registry's disk was full at the last heartbeat."""
        self._runner = runner
        self._writer = writer
        self._catalog = catalog
        self._followers = followers
        self._heartbeats = heartbeats
        self._renewed_s = float("-inf")
        self._troubles = LastingTroubles()
        self._looking = asyncio.Lock()
        self._reads_begun = 0
        self._last_read = 0

    @property
    def has_read_lease(self) -> bool:
        """Whether the lease still holds by our own clock: until then none has replaced us."""
        if self.status is BrokerStatus.STOPPED:
            return False
        return self._runner.clock.monotonic_s() - self._renewed_s < LEASE_S

    async def run(self) -> None:
        """Renew until fenced. A heartbeat that hangs holds up none of those after it."""
        async with asyncio.TaskGroup() as tasks:
            while not self._writer.fenced.is_set():
                tasks.create_task(self._renew_in_time())
                await self._runner.clock.sleep_s(HEARTBEAT_S)

    async def _renew_in_time(self) -> None:
        clock = self._runner.clock
        began_s = clock.monotonic_s()
        try:
            async with asyncio.timeout(LEASE_S):  # a later answer would be of no use
                await self.renew()
        except (LogstoreError, TimeoutError) as error:  # the registry is away, and will be back
            if self._renewed_s > began_s or self._writer.fenced.is_set():
                return  # one that began later got through, or none matters any more
            self.has_no_room = isinstance(error, NoRoom)
            if self._troubles.occurred(NOT_RENEWED, clock.monotonic_s()) is not None:
                why = str(error) or "no answer in time"
                logger.warning(
                    "cannot renew the lease, continuing: broker=%d %s", self._heartbeats.broker, why
                )
        else:
            self.has_no_room = False
            self._troubles.ended(NOT_RENEWED, clock.monotonic_s())

    async def renew(self, status: BrokerStatus | None = None) -> None:
        """One heartbeat. Where it is refused, a successor has started, or the controller has
        taken us for dead: before it seals our chain it makes sure that we renew no more."""
        if status is not None:
            self.status = status
        clock, writer = self._runner.clock, self._writer
        began_s = clock.monotonic_s()
        try:
            await self._heartbeats.send(
                self.status,
                writer.oldest_put_age_s,
                writer.committed_end,
                self._followers.served(),
                self._catalog.version,
            )
        except ConditionFailed:
            writer.stop()
        else:
            self._renewed_s = max(self._renewed_s, began_s)

    async def check_not_sealed(self) -> None:
        """Raises `Fenced` if the chain is sealed by now, or as the store does.

        Callers share looks, but none gets one that began before it asked.
        """
        wanted = self._reads_begun + 1
        async with self._looking:
            if self._last_read >= wanted and not self._writer.fenced.is_set():
                return
            self._reads_begun += 1
            number = self._reads_begun
            await self._read_once()
            self._last_read = number

    async def _read_once(self) -> None:
        writer = self._writer
        if await self._runner.run(find_seal(writer.chain.epoch, writer.committed_end)):
            writer.stop()
        if writer.fenced.is_set():
            raise Fenced(f"chain {writer.chain.epoch} was sealed: another broker took over")
