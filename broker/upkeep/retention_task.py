"""Every five minutes: raise the log start of partitions that hold too old or too much.

Each leader does it for its own partitions: `logstore.protocol.rules.retention` decides from the
index, and from the table where the log no longer goes back so far. Records below the new log start
are deleted when chains are trimmed.
"""

import logging
from collections.abc import Mapping, Sequence
from itertools import islice

from broker.answers.decisions.shown_cluster import INTERNAL_TOPICS
from broker.answers.log_starts import NewStart, raise_led
from logstore.config.broker import BrokerSettings
from logstore.epoch.leader import Leader
from logstore.epoch.log import Log, Topic
from logstore.epoch.table_queries import TableQueries
from logstore.errors import Denied, LogstoreError, NotFound, Retryable
from logstore.formats.partition_row import StartReason
from logstore.formats.table_row import TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.deletion.retention_sweep import written_ms
from logstore.protocol.rows.metadata import read_table_rows
from logstore.protocol.rules.retention import (
    Ledger,
    Policy,
    files_of,
    parts_of_files,
    parts_of_rows,
    segments_of,
)
from logstore.protocol.steps import believed_ms
from logstore.troubles import LastingTroubles

READS_PER_PASS_MAX = 1000
"""Reads of index pages; the rest waits for the next pass."""
DAY_MS = 86_400_000
DOUBTED_DAYS = 0.05
PARTITIONS_PER_TURN = 100
PARTS_PER_TURN = 2_000
"""So many are looked at before the event loop gets its turn."""

logger = logging.getLogger(__name__)


class Retention:
    """Runs until its task is cancelled."""

    def __init__(self, log: Log, settings: BrokerSettings, tables: TableQueries) -> None:
        self._log = log
        self._settings, self._defaults = settings, settings.topic_defaults
        self._tables = tables
        self._ledgers: dict[TopicPartition, Ledger] = {}
        self._policies: dict[bytes, tuple[Mapping[str, str], Policy | None]] = {}
        self._troubles = LastingTroubles()
        self.raised_count = 0
        self.failed_count = 0
        settings.on_change(self._settings_changed)

    def _settings_changed(self) -> None:
        self._period_s = self._settings.number("log.retention.check.interval.ms") / 1000

    async def run(self) -> None:
        runner = self._log.runner
        while True:
            # Brokers that were started together need not all write at once.
            await runner.clock.sleep_s(self._period_s * (0.75 + runner.rng.random() / 2))
            await self.run_once()

    async def run_once(self) -> None:
        log, turn = self._log, _Pass(self._log, self._tables)
        held = self._partitions_with_policy()
        if not held:
            self._ledgers = {}
            return
        try:
            now_ms = await log.runner.run(believed_ms())
        except LogstoreError as error:
            self._log_troubles({f"retention does not know the time: {error}"})
            return
        wanted: list[NewStart] = []
        ledgers, troubles = {}, self._doubts()
        for number, (topic, leader, policy) in enumerate(held):
            if number % PARTITIONS_PER_TURN == 0:
                await log.runner.clock.sleep_s(0)
            key = TopicPartition(topic.topic_id, leader.partition)
            ledger = self._ledgers.get(key)
            if ledger is None or ledger.at < leader.log_start:
                ledger = Ledger(leader.log_start)
            ledgers[key] = ledger
            try:
                await turn.read_on(ledger, leader, policy, now_ms)
            except LogstoreError as error:
                troubles.add(f"retention cannot read the index: topic={topic.name} {error}")
            offset = ledger.decide(policy, now_ms, leader.log_start)
            if offset > leader.log_start:
                wanted.append(NewStart(topic, leader, offset))
        self._ledgers = ledgers
        await self._raise(wanted, troubles)
        self._log_troubles(troubles)

    async def _raise(self, wanted: Sequence[NewStart], troubles: set[str]) -> None:
        outcomes = await raise_led(self._log, wanted, StartReason.RETENTION) if wanted else ()
        for outcome in outcomes:
            if isinstance(outcome, LogstoreError):
                troubles.add(f"retention cannot raise log starts: {outcome}")
        raised = sum(isinstance(outcome, int) for outcome in outcomes)
        self.raised_count += raised
        if raised:
            logger.info("retention raised log starts: partitions=%d", raised)

    def _doubts(self) -> set[str]:
        """A wall clock that is ahead: said once for each day that it is."""
        days = self._log.runner.believed.ahead_ms / DAY_MS
        if days < DOUBTED_DAYS:
            return set()
        return {
            f"the wall clock of this host is {days:.1f} days ahead of what can be confirmed, so "
            "nothing is deleted by it yet; if it is wrong, set it right"
        }

    def _partitions_with_policy(self) -> list[tuple[Topic, Leader, Policy]]:
        """The partitions that are led here and may not keep everything."""
        topics = list(self._log.topics.values())
        policies = {}
        for topic in topics:
            known = self._policies.get(topic.topic_id)
            if known is None or known[0] is not topic.configs:
                known = (topic.configs, Policy.of(topic.configs, self._defaults))
            policies[topic.topic_id] = known
        self._policies = policies
        return [
            (topic, leader, policy)
            for topic in topics
            if topic.name not in INTERNAL_TOPICS
            and (policy := policies[topic.topic_id][1]) is not None
            for leader in topic.leaders.values()
            if leader.has_begun and not leader.is_released
        ]

    def _log_troubles(self, troubles: set[str]) -> None:
        self.failed_count += len(troubles)
        for trouble in self._troubles.replace(troubles, self._log.runner.clock.monotonic_s()):
            logger.warning("%s", trouble)


class _Pass:
    """One pass: the reads that it has left, and the tables' rows."""

    def __init__(self, log: Log, tables: TableQueries) -> None:
        self._log = log
        self._tables = tables
        self._reads_left = READS_PER_PASS_MAX
        self._rows: Mapping[bytes, TableRow] | None = None
        self._snapshot: tuple[bytes, Snapshot | None] = (b"", None)

    async def read_on(self, ledger: Ledger, leader: Leader, policy: Policy, now_ms: int) -> None:
        """Read until it can be decided, or this pass has read enough. Raises as the store does."""
        # An open transaction is not to lose its beginning, so its offsets hold log start.
        up_to = leader.last_stable_offset
        while self._reads_left > 0:
            key = ledger.undated(policy, now_ms)
            if key is not None:
                self._reads_left -= 1
                ledger.date(key, await self._log.runner.run(written_ms(key, now_ms)))
                continue
            if not ledger.wants_more(policy, now_ms, up_to):
                return
            if ledger.at < leader.first_offset_in_memory:
                self._reads_left -= 1
                if ledger.is_new and await self._read_table(ledger, leader, policy):
                    continue
            try:
                found = await self._log.index_rows(leader, ledger.at)
            except (NotFound, Retryable, Denied):
                # Trimmed, since a table holds it; or there is just trouble.
                if not await self._read_table(ledger, leader, policy):
                    raise
                continue
            parts = parts_of_rows(found.rows, found.number, up_to)
            while some := list(islice(parts, PARTS_PER_TURN)):
                ledger.take(some, policy, segments_of(found.chain))
                await self._log.runner.clock.sleep_s(0)

    async def _read_table(self, ledger: Ledger, leader: Leader, policy: Policy) -> bool:
        """Read on in the partition's table; False: the table has no more to read."""
        if self._rows is None:
            self._rows = await self._log.runner.run(read_table_rows())
        row = self._rows.get(leader.topic_id)
        if row is None or row.ends.get(leader.partition, 0) <= ledger.at:
            return False
        if self._snapshot[0] != leader.topic_id:
            self._snapshot = (leader.topic_id, await self._tables.snapshot(leader.topic_id))
        snapshot = self._snapshot[1]
        end = None if snapshot is None else snapshot.end(leader.partition)
        if snapshot is None or end is None or end <= ledger.at:
            return False
        files = snapshot.files_for(leader.partition, ledger.at, end)
        ledger.take(parts_of_files(files, end), policy, files_of(files, snapshot.key_of))
        ledger.skip_to(end)
        return True
