"""The cluster as one look shows it, and the controller's possible actions. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from logstore.formats.broker_row import BrokerRow, BrokerStatus
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.levels import OLDEST_LEVEL
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from logstore.formats.topic_partition import TopicPartition

SLICE_PARTITIONS = 500
"""Looked at between two breaths of the event loop: some 1 ms."""


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    """One partition and where it is; `asked` is how many replicas its topic asks for."""

    topic: str
    topic_id: bytes
    partition: int
    asked: int
    row: PartitionRow

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic_id, self.partition)

    @property
    def is_moving(self) -> bool:
        return self.row.target != NO_BROKER or bool(self.row.reassigning)


class PlacedPartitions:
    """All partitions, and what every look asks of them, counted once."""

    def __init__(self, places: Iterable[PlacedPartition] = ()) -> None:
        self.all: list[PlacedPartition] = []
        self.named: dict[int, int] = {}
        """Owner by chain, of the chains that partitions are led through."""
        self.led: Counter[int] = Counter()
        self.replicas: set[int] = set()
        """Brokers that are a replica of any partition."""
        self.moving: list[PlacedPartition] = []
        self.under_way = 0
        """How many partitions another broker is to lead; the others wait for one that can."""
        self.add(places)

    def add(self, places: Iterable[PlacedPartition]) -> None:
        """Only as long as no decision has been made from them."""
        for place in places:
            row = place.row
            self.all.append(place)
            self.named[row.chain] = row.broker
            self.led[row.broker] += 1
            self.replicas.update(row.replicas)
            if place.is_moving:
                self.moving.append(place)
                self.under_way += row.target != NO_BROKER


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """`alive` as our liveness has it, ourselves included. `chains` may be a minute old."""

    me: int
    now_s: float
    brokers: Mapping[int, BrokerRow]
    alive: frozenset[int]
    chains: Mapping[int, ChainRow]
    places: PlacedPartitions
    format_level: int = OLDEST_LEVEL
    """The finalized one."""

    def is_open(self, chain: int) -> bool:
        """A chain that is newer than our list of chains is open."""
        row = self.chains.get(chain)
        return row is None or row.status is ChainStatus.OPEN

    def is_led(self, row: PartitionRow) -> bool:
        """Whether its leader is there to hand it over."""
        leader = self.brokers.get(row.broker)
        is_current = leader is not None and leader.epoch == row.chain
        return is_current and row.broker in self.alive and self.is_open(row.chain)

    @property
    def eligible(self) -> frozenset[int]:
        """Brokers that may be given partitions: alive, not stopping, not fenced, and able to read
        what others write (one of 0.1.0 may start in the moment in which a level is finalized)."""
        return frozenset(broker for broker in self.alive if self._is_eligible(broker))

    def _is_eligible(self, broker: int) -> bool:
        row = self.brokers.get(broker)
        if row is None or row.level_max < self.format_level:
            return False
        return row.status is BrokerStatus.SERVING and self.is_open(row.epoch)


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Fence and seal a chain, hand its partitions on. `probe`: only if the store answers us."""

    chain: int
    broker: int
    reason: str
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Reassign:
    """Change replicas, reassigning or target of a partition to those of `wanted`."""

    place: PlacedPartition
    wanted: PartitionRow
    reason: str


@dataclass(frozen=True, slots=True)
class Remind:
    """Tell watchers again that this partition is to move."""

    place: PlacedPartition


@dataclass(frozen=True, slots=True)
class StepDown:
    """Let another broker be the controller."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Finish a deletion, or drop a topic whose creation died.

    `lacks_rows`: it is live and has no partition row; so chains are asked first if it was led.
    """

    topic: str
    topic_id: bytes
    reason: str
    lacks_rows: bool = False


@dataclass(frozen=True, slots=True)
class RemoveOrphan:
    """Remove partition rows of a topic that was never created, as far as chains know.

    `rows` are those seen, by partition number.
    """

    topic_id: bytes
    rows: Mapping[int, PartitionRow]


Action = TakeOver | Reassign | Remind | StepDown | DeleteTopic | RemoveOrphan
