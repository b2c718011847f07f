"""Which brokers count on: settled ones are given partitions, gone ones give theirs up. Pure.

Brokers that join together settle together, with the last of them: else partitions move onto the
first, and again onto those after it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.cluster.decisions.controller_state import FirstSeen
from broker.cluster.decisions.view import ClusterView

SETTLED_S = 10.0
"""A broker that serves for less may be about to die again; successors need not be settled."""
JOIN_GAP_S = 2.0
"""Brokers that are first seen within this time of each other join together."""
JOIN_S_MAX = 10.0
"""Between the first and the last of them, so that joins without an end hold off none for ever."""


@dataclass(frozen=True, slots=True)
class Members:
    settled: frozenset[int]
    gone: frozenset[int]
    """Unfit to lead for so long that their replicas are placed on other brokers."""


def find_members(view: ClusterView, first_seen: FirstSeen, gone_after_s: float) -> Members:
    ages = {
        broker: first_seen.age_s(("serving", broker, view.brokers[broker].epoch), view.now_s)
        for broker in view.eligible
    }
    gone = {
        broker
        for broker in (view.places.replicas | view.brokers.keys()) - view.eligible
        if first_seen.age_s(("unfit", broker), view.now_s) >= gone_after_s
    }
    return Members(find_settled(ages), frozenset(gone))


def find_settled(ages: Mapping[int, float]) -> frozenset[int]:
    """`ages` are the seconds for which each eligible broker has been seen to serve."""
    return frozenset(
        broker
        for joined in _joined_together(ages)
        if ages[joined[-1]] >= SETTLED_S
        for broker in joined
    )


def _joined_together(ages: Mapping[int, float]) -> Iterator[list[int]]:
    """Groups of brokers, and each group, oldest first."""
    joined: list[int] = []
    for broker in sorted(ages, key=lambda one: -ages[one]):
        if joined:
            gap_s, all_s = (ages[one] - ages[broker] for one in (joined[-1], joined[0]))
            if gap_s > JOIN_GAP_S or all_s > JOIN_S_MAX:
                yield joined
                joined = []
        joined.append(broker)
    if joined:
        yield joined
