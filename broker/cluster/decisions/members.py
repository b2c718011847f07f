"""Which brokers count on: settled ones are given partitions, gone ones give theirs up. Pure."""

from dataclasses import dataclass

from broker.cluster.decisions.controller_state import FirstSeen
from broker.cluster.decisions.view import ClusterView

SETTLED_S = 10.0
"""A broker that serves for less may be about to die again; successors need not be settled."""


@dataclass(frozen=True, slots=True)
class Members:
    settled: frozenset[int]
    gone: frozenset[int]
    """Unfit to lead for so long that their replicas are placed on other brokers."""


def find_members(view: ClusterView, first_seen: FirstSeen, gone_after_s: float) -> Members:
    settled = {
        broker
        for broker in view.eligible
        if first_seen.age_s(("serving", broker, view.brokers[broker].epoch), view.now_s)
        >= SETTLED_S
    }
    gone = {
        broker
        for broker in (view.places.replicas | view.brokers.keys()) - view.eligible
        if first_seen.age_s(("unfit", broker), view.now_s) >= gone_after_s
    }
    return Members(frozenset(settled), frozenset(gone))
