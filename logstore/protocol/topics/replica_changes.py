"""Change the replicas of a partition and its designated leader: steps on its row. Pure.

Only the requested attributes change here. The leader changes when it has released the partition to
`target`, or when its chain is taken over; that updates the row under the same condition, so a
concurrent change of replicas is decided again from the current row.
"""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from logstore.errors import ConditionFailed, LogstoreError, Retryable
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.ports.registry import Comparison, Row
from logstore.protocol.steps import BackOff, Gather, GetRow, Steps, UpdateRow
from logstore.protocol.topics.life import UnknownTopic

ATTEMPTS_MAX = 20
CHANGED = ("replicas", "reassigning", "target")


class Placement(NamedTuple):
    """The replica attributes of a row; see `PartitionRow`."""

    replicas: tuple[int, ...]
    reassigning: tuple[int, ...]
    target: int

    @staticmethod
    def of(row: PartitionRow) -> "Placement":
        return Placement(row.replicas, row.reassigning, row.target)


Decide = Callable[[PartitionRow], Placement]


def change_placement(topic_id: bytes, partition: int, decide: Decide) -> Steps[PartitionRow]:
    """The row that was decided from, in the end; nothing is written where nothing changes.

    Raises `UnknownTopic`, `Retryable` after losing many races, and what `decide` does.
    """
    pk, sk = partition_pk(topic_id, partition), partition_sk(topic_id, partition)
    current: Row | None = yield GetRow(pk, sk)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        if current is None:
            raise UnknownTopic(f"no such partition: {partition} of topic_id={topic_id.hex()}")
        row = PartitionRow.of(current)
        wanted = decide(row)
        if wanted == Placement.of(row):
            return row
        try:
            yield UpdateRow(pk, sk, _sets(wanted), _unchanged(row, current))
        except ConditionFailed as failed:
            current = failed.current
            yield BackOff(attempt)
        else:
            return row
    raise Retryable(
        f"too many concurrent changes of partition {partition} of {topic_id.hex()}; try again"
    )


def change_placements(
    wanted: Sequence[tuple[bytes, int, Decide]],
) -> Steps[Sequence[PartitionRow | LogstoreError]]:
    """The same for many, each with its own outcome, in order."""
    outcomes: Sequence[PartitionRow | LogstoreError] = yield Gather(
        [change_placement(*one) for one in wanted]
    )
    return outcomes


def _unchanged(row: PartitionRow, stored: Row) -> Sequence[Comparison]:
    """The leadership and the replica attributes (which old rows may lack)."""
    return [
        Comparison("chain", "=", row.chain),
        Comparison("leader_epoch", "=", row.leader_epoch),
        *(Comparison(name, "=", stored[name]) for name in CHANGED if name in stored),
    ]


def _sets(wanted: Placement) -> Row:
    return {
        "replicas": json.dumps(wanted.replicas, separators=(",", ":")),
        "reassigning": json.dumps(wanted.reassigning, separators=(",", ":")),
        "target": wanted.target,
    }
