"""Where partitions go: replicas of new ones, successors of dead leaders, loads of brokers.

New partitions are dealt out on a ring of brokers on which racks alternate. A leader's followers are
the next brokers of the ring, so a broker follows few others' chains, whatever the number of topics:
following costs requests per chain, not per partition. With n brokers and r replicas the leaders of
each n partitions go to the positions 0, r, 2r, … of the ring, so that their replicas lie side by
side: every broker leads equally many, and holds equally many replicas, to one. Where racks are of
unequal size, spreading over racks goes first, as in Kafka's own assignment. Pure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from logstore.formats.partition_row import PartitionRow

Racks = Mapping[int, str]
"""Rack by broker; the empty text is no rack."""


@dataclass(slots=True)
class BrokerLoad:
    """How many partitions each broker is the preferred leader of, and holds a replica of."""

    preferred: Counter[int] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)

    @staticmethod
    def of(rows: Iterable[PartitionRow]) -> "BrokerLoad":
        load = BrokerLoad()
        load.add(rows)
        return load

    def add(self, rows: Iterable[PartitionRow]) -> None:
        for row in rows:
            replicas = row.reassigning or row.replicas
            self.preferred[replicas[0]] += 1
            self.replicas.update(replicas)

    def subtract(self, rows: Iterable[PartitionRow]) -> None:
        for row in rows:
            replicas = row.reassigning or row.replicas
            self.preferred[replicas[0]] -= 1
            self.replicas.subtract(replicas)


def place(
    count: int, replicas: int, brokers: Racks, load: BrokerLoad | None = None
) -> list[tuple[int, ...]]:
    """Brokers of each of `count` new partitions, the leader first.

    `replicas` is cut down to the number of brokers. Raises `ValueError` without brokers.
    """
    if not brokers:
        raise ValueError("no broker to place partitions on")
    ring = alternate_racks(brokers)
    per_partition = min(replicas, len(ring))
    rows = [_on_ring(ring, at, per_partition, brokers) for at in range(len(ring))]
    first = _best_start(count % len(ring), rows, per_partition, load or BrokerLoad())
    return [rows[at] for at in _positions(count, len(ring), per_partition, first)]


def alternate_racks(brokers: Racks) -> list[int]:
    """All brokers, so that neighbours are in different racks where that can be."""
    by_rack: dict[str | int, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(brokers[broker] or broker, []).append(broker)
    depth = max(map(len, by_rack.values()))
    return [rack[at] for at in range(depth) for rack in by_rack.values() if at < len(rack)]


def _on_ring(ring: Sequence[int], at: int, replicas: int, racks: Racks) -> tuple[int, ...]:
    """The leader at `at`, then its next neighbours, those in racks not used yet first."""
    leader = ring[at]
    others = [ring[(at + step) % len(ring)] for step in range(1, len(ring))]
    return (leader, *_new_racks_first(others, [leader], racks))[:replicas]


def _new_racks_first(others: Iterable[int], chosen: Iterable[int], racks: Racks) -> list[int]:
    used = {racks.get(broker) or broker for broker in chosen}
    first: list[int] = []
    rest: list[int] = []
    for broker in others:
        rack = racks[broker] or broker
        (rest if rack in used else first).append(broker)
        used.add(rack)
    return first + rest


def next_on_ring(brokers: Racks, leader: int, chosen: Iterable[int]) -> list[int]:
    """Further replicas for `leader`, best first: all `brokers` but the `chosen`."""
    ring = alternate_racks({leader: "", **brokers})
    at = ring.index(leader)
    taken = {leader, *chosen}
    others = [broker for broker in ring[at + 1 :] + ring[:at] if broker not in taken]
    return _new_racks_first(others, taken, brokers)


def _positions(count: int, size: int, replicas: int, first: int) -> list[int]:
    lap = size // math.gcd(size, replicas)  # steps until 0, r, 2r, … comes round to 0
    return [
        (first + turn * replicas + turn // lap) % size
        for turn in (number % size for number in range(count))
    ]


def _best_start(
    extra: int, rows: Sequence[tuple[int, ...]], replicas: int, load: BrokerLoad
) -> int:
    """Where to begin so that the `extra` partitions beyond full rounds meet the least load."""

    def weight(first: int) -> tuple[int, int, int]:
        met = [rows[at] for at in _positions(max(extra, 1), len(rows), replicas, first)]
        preferred = sum(load.preferred[row[0]] for row in met)
        return preferred, sum(load.replicas[broker] for row in met for broker in row), first

    return min(range(len(rows)), key=weight)


class Successors:
    """The next leader, an eligible broker: the target of a move, else a replica to come, else a
    replica, else any. Of several, the one that leads fewest, then the lowest id."""

    def __init__(self, eligible: Iterable[int], led: Mapping[int, int]) -> None:
        self._led = Counter({broker: led.get(broker, 0) for broker in eligible})

    def restrict(self, eligible: Iterable[int], led: Mapping[int, int]) -> None:
        """Other brokers are eligible now; partitions counted since the start stay counted."""
        self._led = Counter(
            {broker: self._led.get(broker, led.get(broker, 0)) for broker in eligible}
        )

    def choose(self, row: PartitionRow) -> int | None:
        """Counts the partition as the chosen one's from now on; None: no broker is left."""
        for among in ([row.target], row.reassigning, row.replicas, list(self._led)):
            candidates = [broker for broker in among if broker in self._led]
            if candidates:
                successor = min(candidates, key=lambda broker: (self._led[broker], broker))
                self._led[successor] += 1
                return successor
        return None
