"""Reads and conditional changes of rows that the controller makes: steps, each with one outcome."""

from broker.cluster.decisions.cleaning import Inventory
from broker.cluster.decisions.view import PlacedPartition
from logstore.errors import ConditionFailed
from logstore.formats.broker_row import BROKER, BrokerRow, BrokerStatus
from logstore.formats.chain_row import CHAIN, ChainRow
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.ports.registry import Comparison, Condition, Row
from logstore.protocol.rows.metadata import read_partition_rows, read_topics
from logstore.protocol.steps import GetRow, QueryRows, Steps, UpdateRow

CHANGED = ("replicas", "reassigning", "target")


def read_chains() -> Steps[dict[int, ChainRow]]:
    """All chain rows of the registry, sealed chains too, by epoch."""
    rows = yield QueryRows(CHAIN)
    return {int(sk): ChainRow.of(row) for sk, row in rows}


def read_broker(broker: int) -> Steps[BrokerRow | None]:
    row = yield GetRow(BROKER, str(broker))
    return None if row is None else BrokerRow.of(row)


def read_inventory() -> Steps[Inventory]:
    topics = yield from read_topics()
    rows = yield from read_partition_rows()
    return Inventory(topics, rows)


def reassign(place: PlacedPartition, wanted: PartitionRow) -> Steps[bool]:
    """Change replicas, reassigning and target; False: the row has changed since it was read."""
    was, now = place.row.row(), wanted.row()
    sets: Row = {name: now[name] for name in CHANGED if now[name] != was[name]}
    conditions = [
        *_same_leadership(place.row),
        *(Comparison(name, "=", was[name]) for name in CHANGED),
    ]
    pk, sk = (
        partition_pk(place.topic_id, place.partition),
        partition_sk(place.topic_id, place.partition),
    )
    try:
        yield UpdateRow(pk, sk, sets, conditions)
    except ConditionFailed:
        return False
    return True


def _same_leadership(row: PartitionRow) -> list[Condition]:
    return [
        Comparison("leader_epoch", "=", row.leader_epoch),
        Comparison("chain", "=", row.chain),
    ]


def fence_broker(broker: int, epoch: int, heartbeat: int | None) -> Steps[bool]:
    """See to it that a broker that we take for dead renews no more; False: it has renewed.

    `heartbeat` is the one it fell silent with; None: whatever it is, since its process is gone.
    Before this its chain must not be sealed: it would go on answering on the strength of renewals.
    """
    conditions = [Comparison("epoch", "=", epoch)]
    if heartbeat is not None:
        conditions.append(Comparison("heartbeat", "=", heartbeat))
    try:
        yield UpdateRow(BROKER, str(broker), {"status": BrokerStatus.FENCED.value}, conditions)
    except ConditionFailed as failed:
        if failed.current is None:
            return True
        row = BrokerRow.of(failed.current)
        return row.epoch != epoch or row.status in (BrokerStatus.FENCED, BrokerStatus.STOPPED)
    return True
