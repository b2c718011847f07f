"""The cluster as clients see it: brokers, controller, replicas. Pure.

Records are in the object store, so a replica is a broker that would serve a partition: it is in
sync while it is alive, and offline while it is not.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from broker.groups.decisions.group_partition import OFFSETS_TOPIC
from logstore.formats.broker_row import BrokerRow
from logstore.wire.errors import ErrorCode

NO_LEADER = -1
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})


class ShownBroker(NamedTuple):
    broker: int
    host: str
    port: int
    rack: str | None


class ShownReplicas(NamedTuple):
    error: ErrorCode
    leader: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    offline: Sequence[int]


def show_brokers(
    rows: Mapping[int, BrokerRow], listener: str, me: int, reached: tuple[str, int]
) -> list[ShownBroker]:
    """Brokers at the addresses of the client's listener; `reached` is where it found this one."""
    shown = []
    for broker, row in sorted(rows.items()):
        host, port = reached if broker == me else row.address(listener)
        shown.append(ShownBroker(broker, host, port, row.rack or None))
    return shown


def show_replicas(leader: int, replicas: Sequence[int], live: Collection[int]) -> ShownReplicas:
    """A leader that took over without being one of `replicas` is one all the same."""
    known = list(replicas) if leader in replicas or leader not in live else [*replicas, leader]
    in_sync = [broker for broker in known if broker in live]
    offline = [broker for broker in known if broker not in live]
    if leader in live:
        return ShownReplicas(ErrorCode.NONE, leader, known, in_sync, offline)
    return ShownReplicas(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, known, in_sync, offline)
