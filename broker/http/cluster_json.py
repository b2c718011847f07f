"""The document `cluster`: this broker, the cluster as it sees it, and its own counters.

Counters only rise within one start of the broker; rates are for the reader to make of two
documents, with `at_s`. Those of dollars are of the process.
"""

from collections import Counter

from broker.http.decisions.health import why_not_ready
from broker.http.json_page import Document, MakingDocument
from broker.http.observed import AT_ONCE, Observed, serving_status
from logstore.histogram import Histogram

BROKERS_MAX = 500
"""Brokers that one document lists; how many more there are is said."""


def cluster_document(watched: Observed | None, version: str, at_s: float) -> MakingDocument:
    """`at_s`: a clock that only rises, in seconds."""
    status = yield from serving_status(watched)
    reasons = why_not_ready(status)
    about: dict[str, object] = {
        "version": version,
        "state": status.state.value,
        "ready": not reasons,
        "not_ready": reasons,
        "at_s": at_s,
    }
    if watched is None:
        return {"broker": about}
    log = watched.broker.log
    about |= {"id": log.me.broker, "epoch": log.epoch}
    led: Counter[int] = Counter()
    alive = frozenset(log.live_brokers())
    partitions = leaderless = unreplicated = 0
    for topic in list(log.topics.values()):
        partitions += topic.partition_count
        for number, row in enumerate(topic.rows):
            if number % AT_ONCE == 0:
                yield
            led[row.broker] += 1
            if row.broker not in alive:
                leaderless += 1
                unreplicated += alive.isdisjoint(row.replicas)
    groups = watched.broker.groups
    return {
        "broker": about,
        "cluster_id": log.cluster_id.hex(),
        "format_level": log.format_level,
        "controller": watched.controller.holder,
        "brokers": _brokers(watched, alive, led),
        "brokers_left_out": max(0, len(log.brokers) - BROKERS_MAX),
        "topics": len(log.topics),
        "partitions": partitions,
        "partitions_without_leader": leaderless,
        "partitions_without_live_replica": unreplicated,
        "groups": sum(len(one.states.groups) for one in groups.loaded()),
        "groups_loading": groups.is_loading,
        "failovers": _failovers(watched),
        "requests": _requests(watched),
        "traffic": _traffic(watched),
        "dollars": {
            "store": watched.counts.dollars(),
            "registry": watched.times.units.dollars(),
        },
    }


def _brokers(
    watched: Observed, alive: frozenset[int], led: Counter[int]
) -> list[dict[str, object]]:
    """Those that are gone first: they are few, and what one looks for."""
    rows = sorted(watched.broker.log.brokers.items(), key=lambda item: (item[0] in alive, item[0]))
    return [
        {
            "id": broker,
            "alive": broker in alive,
            "status": row.status.value,
            "host": row.host,
            "port": row.port,
            "rack": row.rack,
            "epoch": row.epoch,
            "version": row.version,
            "oldest_put_ms": row.put_age_ms,
            "led": led[broker],
        }
        for broker, row in rows[:BROKERS_MAX]
    ]


def _failovers(watched: Observed) -> Document:
    log, controller = watched.broker.log, watched.controller
    return {
        "controller_terms": controller.lease_changes,
        "takeovers": dict(controller.takeovers.by_reason),
        "seconds": {part.value: _sums(one) for part, one in controller.takeovers.seconds.items()},
        "partitions_claimed": log.claim_count,
        "partitions_released": log.release_count,
    }


def _requests(watched: Observed) -> Document:
    latencies = watched.broker.clients.latencies.by_api
    named = {api.name: _sums(histogram) for api, histogram in latencies.items()}
    return dict(sorted(named.items()))


def _sums(histogram: Histogram) -> Document:
    return {"count": sum(histogram.counts), "seconds": histogram.total}


def _traffic(watched: Observed) -> Document:
    traffic = watched.broker.traffic
    topics = [*traffic.by_topic.values(), traffic.other]
    return {
        name: sum(getattr(topic, name) for topic in topics)
        for name in ("bytes_in", "records_in", "bytes_out", "records_out")
    }
