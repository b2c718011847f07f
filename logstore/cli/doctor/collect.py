"""Collects what `logstore doctor` judges. Changes nothing but what the probe puts and removes.

rows twice, more than a lease apart    whose heartbeats rise
probe                                  rights and promises of store and registry
chains                                 newest segments' times, what holds trimming
reader, tables' rows                   what waits for tables
brokers, if --bootstrap is given       whether they are reached; groups and their lag
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from logstore.cli.decisions.doctor_facts import (
    BrokerFacts,
    CertificateFacts,
    ChainFacts,
    CompactionFacts,
    DamageFacts,
    Facts,
    GroupFacts,
    LeaseFacts,
    TableFacts,
)
from logstore.cli.inspect.registry_view import query_all
from logstore.compaction.decisions.cut import TableTopic
from logstore.errors import LogstoreError, NoRoom
from logstore.formats.broker_row import BROKER, BrokerRow
from logstore.formats.chain_row import CHAIN, ChainRow, ChainStatus
from logstore.formats.compaction_row import COMPACTION, INTERRUPTED, CompactionRow, RunStatus
from logstore.formats.keys import CHAINS, chain_prefix
from logstore.formats.lease_row import LEASE, LeaseRow
from logstore.formats.levels import NEWEST_LEVEL
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment import decode_header
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.ports.clock import Clock
from logstore.protocol.chain.opening import read_cluster
from logstore.protocol.chain.walk import read_checkpoint
from logstore.protocol.rows.metadata import read_partition_rows, read_topics
from logstore.protocol.rows.quotas import read_quotas
from logstore.protocol.rules.trim import FIRST_SEGMENT, Needs, hold_of
from logstore.reading.direct.reader import LogReader, PartitionView
from logstore.wiring.open import ReadableLog

LOOK_S = 4.0
"""Between two readings of the rows: longer than the lease of 3 s, in which each broker renews."""

HEADER_BYTES = 4096
OBJECTS_CHECKED_MAX = 20_000

T = TypeVar("T")

Reached = tuple[Mapping[int, str], Sequence[GroupFacts]]
"""Brokers that were not reached, with the reason; groups."""
Reach = Callable[[Mapping[int, BrokerRow]], Reached]
NOT_ASKED: Reached = ({}, ())
NO_FAULTS: Sequence[str] = ()
NO_DAMAGE: Sequence[DamageFacts] | None = ()


@dataclass(frozen=True, slots=True)
class _Rows:
    brokers: Mapping[int, BrokerRow]
    leases: Mapping[str, LeaseRow]


class FactCollector:
    def __init__(self, log: ReadableLog, clock: Clock, sleep_s: Callable[[float], None]) -> None:
        self._log = log
        self._clock = clock
        self._sleep_s = sleep_s
        self._unreadable: dict[str, str] = {}
        self._no_room = ""

    def collect(
        self,
        version: str,
        *,
        probe: Callable[[], Sequence[str]] | None,
        damage: Callable[[], Sequence[DamageFacts]],
        certificates: Callable[[], Sequence[CertificateFacts]] = tuple,
        reach: Reach | None,
    ) -> Facts:
        """`probe` gives faults, `damage` what objects lack, `certificates` those of servers,
        `reach` brokers that were not reached, and groups. What cannot be looked at is a fact, too.
        Raises `Refused` without a log.
        """
        log = self._log
        cluster = log.runner.run(read_cluster(log.identity.cluster_id))
        before = self._rows()
        faults = None if probe is None else self._try("rights", probe, NO_FAULTS)
        faults = None if self._no_room else faults
        self._sleep_s(LOOK_S)
        after = self._rows()
        topics = log.runner.run(read_topics())
        partitions = log.runner.run(read_partition_rows())
        names = {row.topic_id: name for name, row in topics.items()}
        unreached, groups = NOT_ASKED
        if reach is not None:
            ask = reach
            unreached, groups = self._try("clients", lambda: ask(after.brokers), NOT_ASKED)
        brokers = _brokers(before, after, partitions, unreached)
        live = {one.broker for one in brokers if one.is_advancing}
        return Facts(
            version=version,
            known_level=NEWEST_LEVEL,
            log_level=cluster.format_level,
            store=log.location.url,
            registry=log.identity.registry,
            probe_faults=faults,
            brokers=brokers,
            controller=_lease(before, after, "controller"),
            leaderless=sorted(
                (names[key.topic_id], key.partition)
                for key, row in partitions.items()
                if key.topic_id in names and row.broker not in live
            ),
            orphans=[
                (key.topic_id.hex(), key.partition)
                for key in partitions
                if key.topic_id not in names
            ],
            chains=self._try("chains", lambda: self._chains(topics, partitions, names, live), ()),
            tables=self._try("tables", lambda: self._tables(topics), ()),
            compaction=self._try("compaction", self._compaction, None),
            certificates=self._try("certs", certificates, ()),
            quotas=self._try("quotas", self._quotas, ()),
            groups=groups,
            damage=self._try("objects", lambda: self._damage(damage), NO_DAMAGE),
            no_room=self._no_room,
            unreadable=self._unreadable,
        )

    def _try(self, part: str, look: Callable[[], T], nothing: T) -> T:
        try:
            return look()
        except NoRoom as error:
            self._no_room = str(error)
        except LogstoreError as error:
            self._unreadable[part] = str(error)
        return nothing

    def _rows(self) -> _Rows:
        return _Rows(
            {int(sk): BrokerRow.of(row) for sk, row in query_all(self._log, BROKER)},
            {sk: LeaseRow.of(row) for sk, row in query_all(self._log, LEASE)},
        )

    # Chains

    def _chains(
        self,
        topics: Mapping[str, TopicRow],
        partitions: Mapping[TopicPartition, PartitionRow],
        names: Mapping[bytes, str],
        live: set[int],
    ) -> list[ChainFacts]:
        rows = {int(sk): ChainRow.of(row) for sk, row in query_all(self._log, CHAIN)}
        ends = LogReader(self._log).table_rows()
        needs = Needs(
            live={row.topic_id for row in topics.values() if row.status is TopicStatus.LIVE},
            rows=partitions,
            # A leader that is alive has begun; of the others this is not looked up.
            taken={key: row.leader_epoch for key, row in partitions.items() if row.broker in live},
            durable_ends={
                TopicPartition(topic_id, number): end
                for topic_id, row in ends.items()
                for number, end in row.ends.items()
            },
            deleting={row.topic_id for row in topics.values()},
        )
        return [self._chain(epoch, row, needs, names) for epoch, row in sorted(rows.items())]

    def _chain(
        self, epoch: int, row: ChainRow, needs: Needs, names: Mapping[bytes, str]
    ) -> ChainFacts:
        facts = ChainFacts(epoch, row.broker, row.status, None, "", None, 0)
        if row.status is ChainStatus.OPEN:
            facts = replace(facts, clock_ahead_ms=self._clock_ahead_ms(epoch))
        if row.checkpoint > max(row.trim, FIRST_SEGMENT):
            checkpoint = self._log.runner.run(read_checkpoint(epoch, row.checkpoint))
            hold = hold_of(checkpoint, needs)
            if hold is not None:
                topic = names.get(hold.key.topic_id, hold.key.topic_id.hex())
                age_ms = self._clock.now_ms() - checkpoint.created_ms
                facts = replace(facts, hold=hold.why.value, topic=topic, age_ms=age_ms)
        return facts

    def _clock_ahead_ms(self, epoch: int) -> int | None:
        """By how much the chain's newest segment is younger than its object."""
        infos = list(self._log.runner.store.list(chain_prefix(epoch)))
        if not infos:
            return None
        newest = max(infos, key=lambda info: info.key)
        front = self._log.runner.store.get_range(newest.key, 0, HEADER_BYTES)
        return decode_header(bytes(front)).created_ms - newest.modified_ms

    # Tables

    def _tables(self, topics: Mapping[str, TopicRow]) -> list[TableFacts]:
        reader = LogReader(self._log)
        wanted = {
            name: (row, topic)
            for name, row in topics.items()
            if row.status is TopicStatus.LIVE
            and (topic := TableTopic.of(name, row.topic_id, row.configs)).is_enabled
            and not topic.is_internal
        }
        views = reader.partitions({name: row for name, (row, _) in wanted.items()})
        ends = reader.table_rows()
        by_topic: dict[bytes, list[tuple[TopicPartition, PartitionView, int]]] = {}
        for key, view in views.items():
            pointer = ends.get(key.topic_id)
            end = 0 if pointer is None else pointer.ends.get(key.partition, 0)
            by_topic.setdefault(key.topic_id, []).append((key, view, max(end, view.log_start)))
        return [
            self._table(reader, topic, by_topic.get(row.topic_id, []))
            for row, topic in wanted.values()
        ]

    def _table(
        self,
        reader: LogReader,
        topic: TableTopic,
        ends: Sequence[tuple[TopicPartition, PartitionView, int]],
    ) -> TableFacts:
        waiting = [(key, view, start) for key, view, start in ends if view.end > start]
        now_ms = self._clock.now_ms()
        oldest_ms = now_ms
        for key, view, start in waiting:
            ranges = reader.segment_ranges(key, view.row, start, view.end)
            if ranges:
                oldest_ms = min(oldest_ms, reader.written_ms(ranges[0].chain, ranges[0].first_seq))
        records = sum(view.end - start for _, view, start in waiting)
        return TableFacts(topic.name, records, now_ms - oldest_ms, topic.freshness_ms)

    def _compaction(self) -> CompactionFacts | None:
        runs = [CompactionRow.of(row) for _, row in query_all(self._log, COMPACTION)]
        if not runs:
            return None
        good = [n for n, run in enumerate(runs) if run.status is RunStatus.DONE and not run.outcome]
        since = runs[good[-1] + 1 :] if good else runs
        ended = [one for one in since if one.status is not RunStatus.RUNNING]
        bad = [one for one in ended if one.outcome != INTERRUPTED]
        age_ms = self._clock.now_ms() - runs[good[-1]].ended_ms if good else None
        return CompactionFacts(age_ms, len(bad), bad[-1].outcome if bad else "")

    def _quotas(self) -> Sequence[str]:
        return [
            f"{entity.key} {name}={value:g}"
            for entity, values in self._log.runner.run(read_quotas()).items()
            for name, value in values.items()
        ]

    def _damage(self, check: Callable[[], Sequence[DamageFacts]]) -> Sequence[DamageFacts] | None:
        for count, _ in enumerate(self._log.runner.store.list(CHAINS)):
            if count >= OBJECTS_CHECKED_MAX:
                return None
        return check()


def _brokers(
    before: _Rows,
    after: _Rows,
    partitions: Mapping[TopicPartition, PartitionRow],
    unreached: Mapping[int, str],
) -> list[BrokerFacts]:
    led = Counter(row.broker for row in partitions.values())
    return [
        BrokerFacts(
            broker,
            row.epoch,
            f"{row.host}:{row.port}",
            row.status,
            _has_risen(before.brokers.get(broker), row),
            row.put_age_ms,
            led[broker],
            unreached.get(broker),
            row.version,
            row.level_max,
        )
        for broker, row in sorted(after.brokers.items())
    ]


def _lease(before: _Rows, after: _Rows, name: str) -> LeaseFacts | None:
    row = after.leases.get(name)
    return None if row is None else LeaseFacts(row.owner, _has_risen(before.leases.get(name), row))


def _has_risen(before: BrokerRow | LeaseRow | None, after: BrokerRow | LeaseRow) -> bool:
    """Whether its owner renewed in between, or took it."""
    return before is None or (before.epoch, before.heartbeat) != (after.epoch, after.heartbeat)
