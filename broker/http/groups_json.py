"""The document `groups`: one page of the consumer groups that this broker coordinates, with lag.

The lag is known where this broker leads or follows the partition too; of the others their number is
said. No other broker is asked.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from broker.groups.coordinator import Coordinator
from broker.groups.decisions.group import Group
from broker.groups.decisions.offsets import find
from broker.http.json_page import Document, MakingDocument
from broker.http.observed import AT_ONCE, Observed, end_of
from broker.http.topics_json import pages_of
from logstore.epoch.log import Log

GROUPS_A_PAGE = 100
CLIENTS_MAX = 10
TOPICS_MAX = 20
"""Topics that a group names, those with the most lag first."""


@dataclass(slots=True)
class TopicLag:
    topic: str
    partitions: int = 0
    lag: int = 0
    lag_unknown: int = 0

    def document(self) -> Document:
        return {
            "topic": self.topic,
            "partitions": self.partitions,
            "lag": self.lag,
            "lag_unknown": self.lag_unknown,
        }


def groups_document(watched: Observed, page: int) -> MakingDocument:
    """`page` counts from 1; one behind the last is empty."""
    groups = watched.broker.groups
    coordinators = groups.loaded()
    sorted_names = []
    for coordinator in coordinators:
        sorted_names.append(sorted(coordinator.states.groups))
        yield
    total = sum(map(len, sorted_names))
    places = heapq.merge(*map(_with, sorted_names, coordinators), key=lambda place: place[0])
    shown = []
    for number, (name, coordinator) in enumerate(islice(places, page * GROUPS_A_PAGE)):
        if number % AT_ONCE == 0:
            yield
        group = coordinator.states.get(name)
        if number >= (page - 1) * GROUPS_A_PAGE and group is not None:
            shown.append((yield from _group(group, watched.broker.log)))
    return {
        "page": page,
        "pages": pages_of(total, GROUPS_A_PAGE),
        "total": total,
        "loading": groups.is_loading,
        "groups": shown,
    }


def _with(names: Sequence[str], coordinator: Coordinator) -> Iterator[tuple[str, Coordinator]]:
    return ((name, coordinator) for name in names)


def _group(group: Group, log: Log) -> MakingDocument:
    topics: dict[str, TopicLag] = {}
    yield from _add_lags(group, log, topics)
    lags = sorted(topics.values(), key=lambda one: (-one.lag, one.topic))
    clients = sorted({member.client_id for member in group.members.values()})
    return {
        "group": group.group_id,
        "state": group.phase.value,
        "generation": group.generation,
        "protocol": group.protocol or "",
        "members": len(group.members),
        "clients": clients[:CLIENTS_MAX],
        "clients_left_out": max(0, len(clients) - CLIENTS_MAX),
        "lag": sum(one.lag for one in lags),
        "lag_unknown": sum(one.lag_unknown for one in lags),
        "topics": [one.document() for one in lags[:TOPICS_MAX]],
        "topics_left_out": max(0, len(lags) - TOPICS_MAX),
    }


def _add_lags(group: Group, log: Log, topics: dict[str, TopicLag]) -> Iterator[None]:
    """Offsets of a topic that was deleted, or created again since, have no lag."""
    for count, place in enumerate(list(group.offsets)):
        if count % AT_ONCE == 0:
            yield
        name, number = place
        topic = log.topics.get(name)
        committed = None if topic is None else find(group, place, topic.topic_id)
        if topic is None or committed is None:
            continue
        end = end_of(topic, number)
        one = topics.setdefault(name, TopicLag(name))
        one.partitions += 1
        one.lag += 0 if end is None else max(0, end - committed.offset)
        one.lag_unknown += end is None
