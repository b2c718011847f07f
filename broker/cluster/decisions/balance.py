"""Leadership in balance: back to preferred leaders, and preferred leaders spread evenly. Pure.

The first replica of a partition is its preferred leader. A partition that is led by another is
given back, as Kafka's auto.leader.rebalance does. Where brokers are the preferred leaders of many
more partitions than others (a broker has joined), partitions get new replica lists, with the
broker that has fewest in front. Both begin only above a threshold, and go on until all is even; few
partitions move at once, since each is without a leader for a flush or two.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from broker.cluster.decisions.controller_state import ControllerState
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

MOVES_MAX = 20
"""Partitions that are under way to another leader at any time."""


class _Spread(NamedTuple):
    """By preferred leader: how many partitions, and which ones by topic."""

    preferred: Counter[int]
    at: defaultdict[int, dict[str, list[PlacedPartition]]]


@dataclass(frozen=True, slots=True)
class BalanceRules:
    is_enabled: bool
    percentage: int
    """Imbalance of one broker that is left alone."""


def balance(
    view: ClusterView, members: Members, memory: ControllerState, rules: BalanceRules
) -> Slices[list[Action]]:
    """A few moves, those under way counted; none when all is in balance."""
    if not rules.is_enabled:
        return []
    room = MOVES_MAX - view.places.under_way
    movable: list[PlacedPartition] = []
    for some in parts_of(view.places.all, SLICE_PARTITIONS):
        movable += [place for place in some if not place.is_moving and view.is_led(place.row)]
        yield
    back = yield from _give_back(movable, members, memory, rules)
    if back:
        return list(back[: max(0, room)])
    if view.places.under_way:
        return []  # only while no partition moves
    spread = yield from _spread(movable, members)
    return list(_level(view, spread, members, memory, rules))


def _give_back(
    movable: list[PlacedPartition], members: Members, memory: ControllerState, rules: BalanceRules
) -> Slices[list[Reassign]]:
    preferred: Counter[int] = Counter()
    astray: defaultdict[int, list[PlacedPartition]] = defaultdict(list)
    for some in parts_of(movable, SLICE_PARTITIONS):
        for place in some:
            first = place.row.replicas[0]
            preferred[first] += 1
            if first in members.settled and place.row.broker != first:
                astray[first].append(place)
        yield
    for broker, places in astray.items():
        if len(places) * 100 > preferred[broker] * rules.percentage:
            memory.restoring.add(broker)
    memory.restoring &= astray.keys()
    return [
        Reassign(place, replace(place.row, target=broker), "back to its preferred leader")
        for broker in sorted(memory.restoring)
        for place in astray[broker]
    ]


def _spread(movable: list[PlacedPartition], members: Members) -> Slices[_Spread]:
    preferred = Counter(dict.fromkeys(members.settled, 0))
    at: defaultdict[int, dict[str, list[PlacedPartition]]] = defaultdict(dict)
    for some in parts_of(movable, SLICE_PARTITIONS):
        for place in some:
            first = place.row.replicas[0]
            if first in members.settled:
                preferred[first] += 1
                at[first].setdefault(place.topic, []).append(place)
        yield
    return _Spread(preferred, at)


def _level(
    view: ClusterView,
    spread: _Spread,
    members: Members,
    memory: ControllerState,
    rules: BalanceRules,
) -> Iterator[Action]:
    preferred, at = spread
    racks = {broker: view.brokers[broker].rack for broker in members.settled}
    for number in range(MOVES_MAX):
        if not preferred:
            return
        most = max(preferred, key=lambda broker: (preferred[broker], broker))
        least = min(preferred, key=lambda broker: (preferred[broker], broker))
        difference = preferred[most] - preferred[least]
        if number == 0:
            starts = difference * 100 > preferred[most] * rules.percentage
            memory.is_levelling = difference > 1 and (memory.is_levelling or starts)
        if difference <= 1 or not memory.is_levelling:
            return
        place = _pick(at[most], at[least], least)
        preferred[most] -= 1
        preferred[least] += 1
        yield _with_preferred_leader(place, least, racks)


def _pick(
    at_most: dict[str, list[PlacedPartition]],
    at_least: dict[str, list[PlacedPartition]],
    least: int,
) -> PlacedPartition:
    """From the topic that is spread least evenly; rather where `least` is a replica already."""

    def skew(topic: str) -> int:
        return len(at_most[topic]) - len(at_least.get(topic, ()))

    topic = max((topic for topic in at_most if at_most[topic]), key=lambda one: (skew(one), one))
    places = at_most[topic]
    place = next((one for one in places if least in one.row.replicas), places[-1])
    places.remove(place)
    at_least.setdefault(topic, []).append(place)
    return place


def _with_preferred_leader(place: PlacedPartition, first: int, racks: dict[int, str]) -> Reassign:
    row, reason = place.row, "preferred leaders are to be spread evenly"
    if first in row.replicas:
        replicas = (first, *(broker for broker in row.replicas if broker != first))
    else:
        others = next_on_ring(racks, first, {first})
        replicas = (first, *others[: len(row.replicas) - 1])
    if row.broker == first:
        return Reassign(place, replace(row, replicas=replicas), reason)
    return Reassign(place, replace(row, reassigning=replicas, target=first), reason)
