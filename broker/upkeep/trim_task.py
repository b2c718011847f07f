"""Once a minute: trim this broker's own chain, and as controller those that are sealed; as
controller, once an hour: delete what Spark sinks staged and no leader needs."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from logstore.config.broker import BrokerSettings
from logstore.epoch.durable_table_ends import DurableTableEnds
from logstore.epoch.table_queries import TableQueries
from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.formats.chain_row import ChainRow
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.deletion.trimming import Trimmer, TrimPass, Wanted, only, sealed
from logstore.protocol.sinks.staging_sweep import sweep_staging
from logstore.runners.step_runner import StepRunner
from logstore.troubles import LastingTroubles

PERIOD_S = 60.0
STAGING_PERIOD_S = 3_600.0
"""One LIST, and some reads for each batch that has objects."""

logger = logging.getLogger(__name__)


class TrimmedLog(Protocol):
    """The parts of a log that are needed here."""

    epoch: int
    cluster_id: bytes

    @property
    def runner(self) -> StepRunner: ...

    async def forget_ended(self, durable_ends: Mapping[TopicPartition, int]) -> int: ...


class Trimming:
    """Runs until its task is cancelled; every pass may be the last, and none is needed."""

    def __init__(
        self,
        log: TrimmedLog,
        settings: BrokerSettings,
        is_controller: Callable[[], bool],
        tables: TableQueries,
        *,
        period_s: float = PERIOD_S,
    ) -> None:
        self._log = log
        self._period_s = period_s
        self._is_controller = is_controller
        grace_ms = settings.number("logstore.delete.grace.ms")
        self._trimmer = Trimmer(log.cluster_id, grace_ms=grace_ms)
        self._tables = DurableTableEnds(tables, grace_ms)
        self._grace_ms = grace_ms
        self._staging_due_s = log.runner.clock.monotonic_s() + STAGING_PERIOD_S
        self.published_count = 0
        self.swept_count = 0
        """Staged objects and manifests that were deleted."""
        self.deleted_count = 0
        self.failed_count = 0
        self._troubles = LastingTroubles()

    def table_ends(self, topic_id: bytes) -> Mapping[int, int]:
        """Where a topic's table ends, by partition, as trimming last read it."""
        return self._tables.pointed_ends(topic_id)

    async def run(self) -> None:
        runner = self._log.runner
        while True:
            # Brokers that were started together need not all ask at once.
            await runner.clock.sleep_s(self._period_s * (0.75 + runner.rng.random() / 2))
            await self.trim_once()

    async def trim_once(self) -> None:
        mine, is_controller = only(self._log.epoch), self._is_controller()
        troubles: dict[str, int] = {}

        def wanted(epoch: int, row: ChainRow) -> bool:
            return mine(epoch, row) or (is_controller and sealed(epoch, row))

        try:
            done, durable_ends = await self._pass(wanted, troubles)
            if done.due:
                _, durable_ends = await self._pass(wanted, troubles, done.due_topics)
            await self._log.forget_ended(durable_ends)
            if is_controller:
                await self._sweep_staging()
        except LogstoreError as error:
            is_alarm = isinstance(error, Corrupt | Refused)
            troubles[f"cannot trim: {error}"] = logging.ERROR if is_alarm else logging.WARNING
        self._log_troubles(troubles)

    async def _sweep_staging(self) -> None:
        runner = self._log.runner
        if runner.clock.monotonic_s() < self._staging_due_s:
            return
        self._staging_due_s = runner.clock.monotonic_s() + STAGING_PERIOD_S
        swept = await runner.run(sweep_staging(self._log.cluster_id, self._grace_ms))
        self.swept_count += swept.objects + swept.manifests
        if swept.objects or swept.manifests or swept.voided:
            logger.info(
                "staging of sinks swept: objects=%d manifests=%d given_up=%d",
                swept.objects,
                swept.manifests,
                swept.voided,
            )
        if swept.troubles:
            logger.error("manifests of sinks cannot be read: count=%d", swept.troubles)

    async def _pass(
        self, wanted: Wanted, troubles: dict[str, int], due: Collection[bytes] | None = None
    ) -> tuple[TrimPass, Mapping[TopicPartition, int]]:
        """Nothing is deleted unless `due` is given: those tables are asked again.

        Returns the pass's result, and the offsets that tables hold.
        """
        runner = self._log.runner
        durable_ends = await self._tables.look(runner, fresh=due or ())
        for trouble in durable_ends.troubles:
            troubles[f"segments are not trimmed by a table: {trouble}"] = logging.ERROR
        done = await runner.run(
            self._trimmer.steps(
                wanted,
                durable_ends.ends,
                may_delete=due is not None,
                asked_ms=None if due is None else durable_ends.asked_ms,
            )
        )
        self.published_count += len(done.published)
        self.deleted_count += sum(done.deleted.values())
        _report(done)
        return done, durable_ends.ends

    def _log_troubles(self, troubles: dict[str, int]) -> None:
        """Trouble that passes by itself gets a log line, other trouble an alarm."""
        self.failed_count += bool(troubles)
        for trouble in self._troubles.replace(troubles, self._log.runner.clock.monotonic_s()):
            logger.log(troubles[trouble], "%s", trouble)


def _report(done: TrimPass) -> None:
    for epoch, seq in done.published.items():
        logger.info("trim point raised: chain=%d seq=%d", epoch, seq)
    for epoch, count in done.deleted.items():
        logger.info("deleted below a trim point: chain=%d objects=%d", epoch, count)
