"""A cluster of rows alone, on which decisions take effect at once: for tests of what is decided."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from broker.cluster.decisions.balance import BalanceRules
from broker.cluster.decisions.controller_state import ControllerState, Interval
from broker.cluster.decisions.decide import Rules, decide
from broker.cluster.decisions.fencing import FencingRules
from broker.cluster.decisions.placement import Successors
from broker.cluster.decisions.view import (
    Action,
    ClusterView,
    PlacedPartition,
    PlacedPartitions,
    Reassign,
    TakeOver,
)
from logstore.formats.broker_row import BrokerRow, BrokerStatus
from logstore.formats.chain_row import ChainRow, ChainStatus
from logstore.formats.partition_row import NO_BROKER, PartitionRow
from logstore.slices import finish

RULES = Rules(FencingRules(10_000), BalanceRules(True, 10), 600.0)
TOPIC_ID = b"t" * 16


def broker_row(epoch: int, **changes: Any) -> BrokerRow:
    row = BrokerRow(epoch=epoch, heartbeat=1, host="h", port=1, rack="", lock="l")
    return replace(row, **changes)


def led_by(broker: int, chain: int, replicas: Sequence[int] = (), **changes: Any) -> PartitionRow:
    return replace(PartitionRow.new(broker, chain, replicas), **changes)


@dataclass
class Model:
    """Broker 1 is the controller. A broker's chain is its row's epoch."""

    brokers: dict[int, BrokerRow]
    rows: list[PartitionRow]
    dead: set[int] = field(default_factory=set)
    chains: dict[int, ChainRow] = field(default_factory=dict)
    asked: int = 1
    now_s: float = 0.0
    memory: ControllerState = field(default_factory=lambda: ControllerState(balance=Interval(30.0)))

    @property
    def alive(self) -> frozenset[int]:
        stopped = {b for b, row in self.brokers.items() if row.status is BrokerStatus.STOPPED}
        return frozenset(self.brokers) - self.dead - stopped | {1}

    def view(self) -> ClusterView:
        places = PlacedPartitions(
            PlacedPartition(f"topic {number % 3}", TOPIC_ID, number, self.asked, row)
            for number, row in enumerate(self.rows)
        )
        return ClusterView(
            me=1,
            now_s=self.now_s,
            brokers=self.brokers,
            alive=self.alive,
            chains=dict(self.chains),
            places=places,
        )

    def decide(self) -> list[Action]:
        return finish(decide(self.view(), self.memory, RULES))

    def look(self, later_s: float = 0.5) -> list[Action]:
        """Later: what is decided, done at once, and what leaders do about it."""
        self.now_s += later_s
        view, actions = self.view(), self.decide()
        successors = Successors(view.eligible or view.alive, view.places.led)
        for action in actions:
            if isinstance(action, TakeOver):
                self.take_over(action, successors)
            elif isinstance(action, Reassign):
                assert self.rows[action.place.partition] == action.place.row
                self.rows[action.place.partition] = action.wanted
        self._leaders_follow_targets(view.eligible)
        return actions

    def run(self, looks: int, later_s: float = 5.0) -> None:
        for _ in range(looks):
            self.look(later_s)

    def take_over(self, action: TakeOver, successors: Successors) -> None:
        self.chains[action.chain] = ChainRow(broker=action.broker, status=ChainStatus.SEALED)
        for number, row in enumerate(self.rows):
            if row.chain == action.chain:
                successor = successors.choose(row)
                assert successor is not None
                self.rows[number] = row.taken_by(
                    broker=successor, chain=self.brokers[successor].epoch, start=0
                )

    def _leaders_follow_targets(self, eligible: Iterable[int]) -> None:
        for number, row in enumerate(self.rows):
            is_led = row.broker in self.alive and row.chain == self.brokers[row.broker].epoch
            if is_led and row.target not in (NO_BROKER, row.broker):
                to = row.target if row.target in eligible else row.broker
                self.rows[number] = row.taken_by(broker=to, chain=self.brokers[to].epoch, start=0)
