"""Reads a broker's counters as they are, in chunks. No counter exists for it alone."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import fields
from typing import TypeVar

from broker.groups.coordinator import RebalanceReason
from broker.http.decisions import catalogue as m
from broker.http.decisions.health import ServingStatus, State, why_not_ready
from broker.http.decisions.label_names import OTHER, ShownNames
from broker.http.decisions.table_waits import TableWaits
from broker.http.observe_groups import GroupReading
from broker.http.observed import AT_ONCE, Observed, serving_status
from broker.http.reading import Reading
from broker.network.clients import Clients
from broker.network.decisions.quota_rules import QuotaKind
from broker.upkeep.compaction_counts import CompactionCounts
from logstore.config.broker import BrokerSettings
from logstore.epoch.log import Topic
from logstore.formats.topic_partition import TopicPartition
from logstore.histogram import Histogram
from logstore.reading.brokers.history import History
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode

T = TypeVar("T")

CONTROLLER_FAILURES = "failures"
"""The field of the controller's counts that is not an action."""


class Observer:
    """`lateness` is the event loop's. Keeps state between two readings."""

    def __init__(
        self,
        version: str,
        settings: BrokerSettings,
        lateness: Histogram,
        compaction: CompactionCounts,
        open_listeners: int = 0,
    ) -> None:
        self._version = version
        self._open_listeners = open_listeners
        self._lateness = lateness
        self._compaction = compaction
        self._series_max = settings.number("logstore.metrics.series.max")
        names_max = settings.number("logstore.metrics.names.max")
        self._topics, self._groups = ShownNames(names_max), ShownNames(names_max)
        self._table_waits = TableWaits()

    def read(self, watched: Observed | None) -> Iterator[Sequence[Reading]]:
        status = yield from _chunks(serving_status(watched))
        yield [
            _one(m.BUILD, 1, self._version),
            *(_one(m.STATE, status.state is state, state) for state in State),
            _one(m.READY, not why_not_ready(status)),
            _one(m.LOOP_LAG, self._lateness.copy()),
            _one(m.OPEN_LISTENERS, self._open_listeners),
            *_compaction(self._compaction),
        ]
        if watched is None:
            return
        yield _clients(watched)
        yield _traffic(watched)
        yield _writing(watched)
        yield _sinks(watched)
        yield _cluster(watched, status)
        yield _controller(watched)
        yield _store(watched)
        log = watched.broker.log
        self._topics.renew(log.topics)
        alive = frozenset(log.live_brokers())
        left_out = leaderless = unreplicated = 0
        series = self._series_max
        for topic in list(log.topics.values()):
            readings = _partitions(topic, series) if topic.name in self._topics else []
            series -= len(readings) // 2
            left_out += len(topic.leaders) - len(readings) // 2
            for row in topic.rows:
                if row.broker not in alive:
                    leaderless += 1
                    unreplicated += alive.isdisjoint(row.replicas)
            yield readings
        yield from self._waits(watched)
        yield [_one(m.LEADERLESS, leaderless), _one(m.UNREPLICATED, unreplicated)]
        rebalances = watched.broker.groups.rebalances
        yield [_one(m.REBALANCES, rebalances[reason], reason) for reason in RebalanceReason]
        groups = GroupReading(log, self._topics, self._groups, self._series_max)
        yield from groups.read(watched.broker.groups)
        yield [_one(m.LEFT_OUT, left_out + groups.left_out)]

    def _waits(self, watched: Observed) -> Iterator[Sequence[Reading]]:
        """Of topics that have a table, as far as trimming has read; of partitions led here."""
        log, waits = watched.broker.log, self._table_waits
        now_s = log.runner.clock.monotonic_s()
        seconds: dict[str, float] = {}
        offsets: dict[str, int] = {}
        waits.begin()
        for topic in list(log.topics.values()):
            ends = watched.trimming.table_ends(topic.topic_id)
            name = self._topics.label(topic.name)
            led_here = list(topic.leaders.items()) if ends else []
            for count, (number, leader) in enumerate(led_here, 1):
                if count % AT_ONCE == 0:
                    yield ()
                end, table_end = leader.high_watermark, max(ends.get(number, 0), leader.log_start)
                key = TopicPartition(topic.topic_id, number)
                waited_s = waits.add(key, table_end, end, now_s)
                seconds[name] = max(seconds.get(name, 0.0), waited_s)
                offsets[name] = offsets.get(name, 0) + max(0, end - table_end)
            yield ()
        waits.finish()
        yield [_one(m.TABLE_WAIT_SECONDS, value, name) for name, value in seconds.items()]
        yield [_one(m.TABLE_WAIT_OFFSETS, value, name) for name, value in offsets.items()]


def _chunks(slices: Slices[T]) -> Generator[Sequence[Reading], None, T]:
    """Chunks without a reading."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result
        yield ()


def _one(metric: m.Metric, value: float | Histogram, *labels: str) -> Reading:
    return Reading(metric, labels, value)


def _compaction(counts: CompactionCounts) -> list[Reading]:
    return [
        _one(m.COMPACTION, counts.is_running),
        _one(m.COMPACTION_RUNS, counts.good_runs, "good"),
        _one(m.COMPACTION_RUNS, counts.failed_runs, "failed"),
        _one(m.COMPACTION_LAST, counts.last_good_ms / 1000),
        _one(m.COMPACTION_RECORDS, counts.records),
        _one(m.COMPACTION_BYTES, counts.bytes_in),
        _one(m.COMPACTION_DEATHS, counts.deaths),
        _one(m.CLEAN_BYTES, counts.cleaned_bytes),
        _one(m.CLEAN_DROPPED, counts.dropped_rows),
        _one(m.CLEAN_UNCLEANABLE, counts.uncleanable),
        _one(m.CLEAN_DELAY, counts.clean_delay_s),
    ]


def _clients(watched: Observed) -> list[Reading]:
    clients, sessions = watched.broker.clients, watched.broker.fetch_sessions
    return [
        *(
            _one(m.REQUESTS, histogram.copy(), api.name)
            for api, histogram in clients.latencies.by_api.items()
        ),
        *(
            _one(m.LOOP_HOLDS, clients.holds.by_api[api.name], api.name)
            for api in clients.latencies.by_api
        ),
        *(
            _one(m.LOOP_LONGEST, clients.holds.longest_s(api.name), api.name)
            for api in clients.latencies.by_api
        ),
        *(
            _one(m.ERRORS, count, api, _name_of(code))
            for (api, code), count in clients.errors.by_api.items()
        ),
        *(_one(m.DENIALS, count, api) for api, count in watched.broker.denials.by_api.items()),
        *(_one(m.SOFTWARE, count, *one) for one, count in clients.software.shown().items()),
        _one(m.CONNECTIONS, len(clients.connections)),
        _one(m.ACCEPTED, clients.accepted_count),
        _one(m.REFUSED, clients.refusals.count),
        _one(m.LOG_FULL, clients.is_log_full),
        _one(m.RECEIVING, clients.receive_budget.used_bytes),
        _one(m.RECEIVE_WAITS, clients.receive_budget.waiting_count),
        _one(m.UNSENT, clients.slow_readers.unsent_bytes),
        *_quotas(clients),
        _one(m.FETCH_SESSIONS, len(sessions)),
        _one(m.FETCH_SESSION_PARTITIONS, sessions.partition_count),
        _one(m.FETCH_SESSION_EVICTIONS, sessions.eviction_count),
    ]


def _quotas(clients: Clients) -> list[Reading]:
    quotas = clients.quotas
    return [
        _one(m.QUOTAS, quotas.entity_count),
        _one(m.QUOTA_CLIENTS, quotas.tracked_count),
        *(_one(m.THROTTLED, quotas.throttled_counts[kind], kind) for kind in QuotaKind),
        *(_one(m.THROTTLE_SECONDS, quotas.throttled_s[kind], kind) for kind in QuotaKind),
        _one(m.MUTED, clients.mutes.count),
    ]


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _traffic(watched: Observed) -> list[Reading]:
    traffic = watched.broker.traffic
    readings = []
    for name, topic in [*traffic.by_topic.items(), (OTHER, traffic.other)]:
        readings += [
            _one(m.BYTES_IN, topic.bytes_in, name),
            _one(m.RECORDS_IN, topic.records_in, name),
            _one(m.BYTES_OUT, topic.bytes_out, name),
            _one(m.RECORDS_OUT, topic.records_out, name),
        ]
    return readings


def _writing(watched: Observed) -> list[Reading]:
    log, trimming = watched.broker.log, watched.trimming
    writer, cache = log.writer, log.cache
    return [
        _one(m.EPOCH, log.epoch),
        _one(m.SEGMENTS, writer.segment_count),
        _one(m.SEGMENT_BYTES, writer.stored_bytes),
        _one(m.COMMIT_SECONDS, writer.commit_times.copy()),
        *(
            _one(m.FLUSH_BYTES, histogram.copy(), reason)
            for reason, histogram in writer.flush_bytes.items()
        ),
        _one(m.BACKLOG, writer.backlog_bytes),
        _one(m.DISK_FULL, log.has_no_room),
        _one(m.PUT_AGE, writer.oldest_put_age_s),
        _one(m.COMMITTED_SEQ, writer.committed_end),
        _one(m.OPEN_SEQ, writer.open_seq),
        _one(m.CACHE_HITS, cache.hit_count),
        _one(m.CACHE_MISSES, cache.miss_count),
        _one(m.CACHE_BYTES, cache.byte_count),
        _one(m.INDEX_CACHE, log.index_cache_bytes),
        _one(m.READ_AHEAD, log.read_ahead_bytes),
        *_history(log.history),
        _one(m.TRIM_POINTS, trimming.published_count),
        _one(m.TRIM_DELETED, trimming.deleted_count),
        _one(m.TRIM_FAILURES, trimming.failed_count),
    ]


def _sinks(watched: Observed) -> list[Reading]:
    counts = watched.broker.adopt_counts
    return [
        *(
            _one(m.ADOPTS, count, outcome.name.lower())
            for outcome, count in counts.by_outcome.items()
        ),
        _one(m.ADOPTED_BATCHES, counts.batches),
        _one(m.ADOPTED_BYTES, counts.bytes),
        _one(m.STAGING_SWEPT, watched.trimming.swept_count),
    ]


def _history(history: History) -> list[Reading]:
    return [
        _one(m.HISTORY_HITS, history.hit_count),
        _one(m.HISTORY_MISSES, history.miss_count),
        _one(m.HISTORY_BYTES, history.served_bytes),
        _one(m.HISTORY_CACHE, history.cache_bytes),
        _one(m.HISTORY_REFRESHES, history.refresh_count),
    ]


def _cluster(watched: Observed, status: ServingStatus) -> list[Reading]:
    log, peers = watched.broker.log, watched.peers
    return [
        _one(m.LEVEL, log.format_level),
        _one(m.LEVEL_MAX, log.me.level_max),
        _one(m.BROKERS, len(log.live_brokers())),
        _one(m.READ_LEASE, status.has_read_lease),
        _one(m.TOPICS, len(log.topics)),
        _one(m.NAMED, status.named),
        _one(m.LED, status.led),
        _one(m.FOLLOWED, sum(len(topic.followers) for topic in log.topics.values())),
        _one(m.CLAIMS, log.claim_count),
        _one(m.RELEASES, log.release_count),
        _one(m.PEERS_WATCHED, peers.watched_count),
        _one(m.PEERS_CONNECTED, len(peers.connected)),
    ]


def _controller(watched: Observed) -> list[Reading]:
    controller = watched.controller
    counts, holder = controller.counts, controller.holder
    named = {one.name: getattr(counts, one.name) for one in fields(counts)}
    failures = named.pop(CONTROLLER_FAILURES)
    return [
        _one(m.CONTROLLER, controller.is_active),
        _one(m.CONTROLLER_ID, -1 if holder is None else holder),
        _one(m.TERMS, controller.lease_changes),
        *(_one(m.ACTIONS, count, action) for action, count in named.items()),
        _one(m.CONTROLLER_FAILURES, failures),
        *(_one(m.TAKEOVERS, count, why) for why, count in controller.takeovers.by_reason.items()),
        *(
            _one(m.TAKEOVER_SECONDS, histogram.copy(), part)
            for part, histogram in controller.takeovers.seconds.items()
        ),
    ]


def _store(watched: Observed) -> list[Reading]:
    times = watched.times
    readings = [
        _one(m.STORE_DOLLARS, watched.counts.dollars()),
        _one(m.REGISTRY_DOLLARS, times.units.dollars()),
        *(
            _one(metric, histogram.copy(), kind, outcome)
            for metric, of_port in (
                (m.STORE_SECONDS, times.store),
                (m.REGISTRY_SECONDS, times.registry),
            )
            for (kind, outcome), histogram in of_port.by_kind.items()
        ),
    ]
    for kind, counts in watched.counts.snapshot().items():
        readings += [
            _one(m.STORE_REQUESTS, counts.calls, kind),
            _one(m.STORE_ERRORS, counts.errors, kind),
            _one(m.STORE_BYTES, counts.bytes, kind),
        ]
    return readings


def _partitions(topic: Topic, most: int) -> list[Reading]:
    """Two readings of each of the first `most` partitions that are led here."""
    readings = []
    for number in sorted(topic.leaders)[: max(0, most)]:
        leader, labels = topic.leaders[number], (topic.name, str(number))
        readings.append(Reading(m.HIGH_WATERMARK, labels, leader.high_watermark))
        readings.append(Reading(m.LOG_START, labels, leader.log_start))
    return readings
