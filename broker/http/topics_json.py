"""The documents `topics` and `partitions`, a page of each: leaders by rows, offsets if known here.

Offsets are known of partitions that this broker leads or follows; no other broker is asked. How far
a topic's table reaches is what this broker's trimming read last, up to a tenth of the delete grace
ago.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from broker.http.json_page import Document, MakingDocument
from broker.http.observed import AT_ONCE, Observed, end_of
from logstore.epoch.log import Topic

TOPICS_A_PAGE = 100
PARTITIONS_A_PAGE = 500
LEADERS_MAX = 20
"""Brokers that a topic names as leaders of its partitions, those of most partitions first."""


class TierOffsets(NamedTuple):
    """Where the records of one partition lie: offsets [log start, in_table), [in_table, end)."""

    log_start: int
    in_table: int
    end: int


def topics_document(watched: Observed, page: int) -> MakingDocument:
    """`page` counts from 1; one behind the last is empty."""
    log = watched.broker.log
    names = sorted(log.topics)
    yield
    alive = frozenset(log.live_brokers())
    shown = []
    for name in names[(page - 1) * TOPICS_A_PAGE : page * TOPICS_A_PAGE]:
        topic = log.topics.get(name)
        if topic is not None:
            shown.append(
                (yield from _topic(topic, watched.trimming.table_ends(topic.topic_id), alive))
            )
    return {
        "page": page,
        "pages": pages_of(len(names), TOPICS_A_PAGE),
        "total": len(names),
        "topics": shown,
    }


def partitions_document(topic: Topic, watched: Observed, page: int) -> MakingDocument:
    """The same of one topic's partitions."""
    alive = frozenset(watched.broker.log.live_brokers())
    ends = watched.trimming.table_ends(topic.topic_id)
    shown = []
    first = (page - 1) * PARTITIONS_A_PAGE
    for number, row in enumerate(topic.rows[first : first + PARTITIONS_A_PAGE], first):
        if number % AT_ONCE == 0:
            yield
        tiers = tiers_of(topic, number, ends.get(number))
        shown.append(
            {
                "partition": number,
                "leader": row.broker,
                "leader_alive": row.broker in alive,
                "leader_epoch": row.leader_epoch,
                "replicas": list(row.replicas),
                "log_start": row.log_start if tiers is None else tiers.log_start,
                "table_end": ends.get(number),
                "end": None if tiers is None else tiers.end,
            }
        )
    return {
        "topic": topic.name,
        "page": page,
        "pages": pages_of(topic.partition_count, PARTITIONS_A_PAGE),
        "total": topic.partition_count,
        "partitions": shown,
    }


def pages_of(total: int, a_page: int) -> int:
    """At least one, which may be empty."""
    return max(1, -(-total // a_page))


def tiers_of(topic: Topic, number: int, table_end: int | None) -> TierOffsets | None:
    """None where this broker does not know the partition's end."""
    end = end_of(topic, number)
    if end is None:
        return None
    leader = topic.leaders.get(number)
    log_start = topic.rows[number].log_start if leader is None else leader.log_start
    return TierOffsets(log_start, min(max(table_end or 0, log_start), end), end)


def _topic(topic: Topic, table_ends: Mapping[int, int], alive: frozenset[int]) -> MakingDocument:
    leaders: Counter[int] = Counter()
    known = in_table = in_segments = 0
    for number, row in enumerate(topic.rows):
        if number % AT_ONCE == 0:
            yield
        leaders[row.broker] += 1
        tiers = tiers_of(topic, number, table_ends.get(number))
        if tiers is not None:
            known += 1
            in_table += tiers.in_table - tiers.log_start
            in_segments += tiers.end - tiers.in_table
    return {
        "topic": topic.name,
        "id": topic.topic_id.hex(),
        "partitions": topic.partition_count,
        "replicas": topic.replicas,
        "leaders": [_leader(one, count, alive) for one, count in leaders.most_common(LEADERS_MAX)],
        "leaders_left_out": max(0, len(leaders) - LEADERS_MAX),
        "without_leader": sum(n for one, n in leaders.items() if one not in alive),
        "partitions_known": known,
        "offsets_in_segments": in_segments,
        "offsets_in_table": in_table,
    }


def _leader(broker: int, count: int, alive: frozenset[int]) -> Document:
    return {"broker": broker, "alive": broker in alive, "partitions": count}
