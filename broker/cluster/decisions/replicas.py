"""Replica lists: filled up to the topic's replication factor, without dead brokers. Pure.

Replicas hold no data that is not in the store, so a new one costs no copy.
"""

from dataclasses import replace

from broker.cluster.decisions.members import Members
from broker.cluster.decisions.placement import next_on_ring
from broker.cluster.decisions.view import (
    SLICE_PARTITIONS,
    Action,
    ClusterView,
    PlacedPartition,
    Reassign,
)
from logstore.slices import Slices, parts_of

CHANGES_MAX = 100
"""In one look; the next look sees to the rest."""


def complete_replicas(view: ClusterView, members: Members) -> Slices[list[Action]]:
    actions: list[Action] = []
    racks = {broker: view.brokers[broker].rack for broker in members.settled}
    for some in parts_of(view.places.all, SLICE_PARTITIONS):
        for place in some:
            if place.is_moving or len(actions) == CHANGES_MAX:
                continue
            wanted = _complete(place, members, racks)
            if wanted != place.row.replicas:
                reason = "replicas are to be as many as asked, on brokers that are there"
                actions.append(Reassign(place, replace(place.row, replicas=wanted), reason))
        yield
    return actions


def _complete(place: PlacedPartition, members: Members, racks: dict[int, str]) -> tuple[int, ...]:
    kept = [broker for broker in place.row.replicas if broker not in members.gone]
    if len(kept) == len(place.row.replicas) and len(kept) >= place.asked:
        return place.row.replicas
    leader = place.row.broker
    if leader in members.settled and not kept:
        kept = [leader]
    first = kept[0] if kept else leader
    for broker in next_on_ring(racks, first, {first, *kept}):
        if len(kept) < place.asked and broker not in kept:
            kept.append(broker)
    return tuple(kept) or place.row.replicas
