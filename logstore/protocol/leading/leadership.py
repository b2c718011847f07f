"""Name the next leader of a partition in its row, as long as the row's leadership is the one seen.

Others may change the rest of the row at the same time. Log start is not written; it and the
placement are conditions of the change, so that it is decided again from the row as it is, and the
row that is returned is the one that the registry holds: a leader that began with an older log start
would show it to go back.
"""

from dataclasses import replace
from itertools import pairwise

from logstore.errors import ConditionFailed, Retryable
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.registry import Comparison
from logstore.protocol.steps import Steps, UpdateRow

ATTEMPTS_MAX = 20
DECIDED_FROM = ("replicas", "reassigning", "target", "log_start", "stretches")


def change_leader(
    key: TopicPartition,
    row: PartitionRow,
    *,
    broker: int,
    chain: int,
    start: int,
    known_from: int,
) -> Steps[PartitionRow]:
    """The row afterwards. Raises `ConditionFailed` when its leadership is another by now."""
    pk, sk = partition_pk(*key), partition_sk(*key)
    for _ in range(ATTEMPTS_MAX):
        taken = row.taken_by(broker=broker, chain=chain, start=start, known_from=known_from)
        seen = row.row()
        conditions = [
            Comparison("chain", "=", row.chain),
            Comparison("leader_epoch", "=", row.leader_epoch),
            *(Comparison(name, "=", seen[name]) for name in DECIDED_FROM),
        ]
        try:
            yield UpdateRow(pk, sk, taken.leadership(), conditions)
        except ConditionFailed as failed:
            if failed.current is None:
                raise  # the topic is gone
            now = PartitionRow.of(failed.current)
            if now.epoch_ranges[-1] == taken.epoch_ranges[-1]:
                return now  # an earlier attempt of ours
            if (now.chain, now.leader_epoch) != (row.chain, row.leader_epoch):
                raise
            row = now
        else:
            return taken
    raise Retryable(f"the row of a partition keeps changing: sk={sk}")


def shorten_row(
    key: TopicPartition, row: PartitionRow, durable_end: int = 0
) -> Steps[PartitionRow | None]:
    """Apply `shortened` to the row of a leadership whose leadership-begin entry is committed.

    Only for the leader that the row names. Returns the new row; None: nothing to drop, or the row
    has changed.
    """
    short = shortened(row, durable_end)
    if short == row:
        return None
    seen = row.row()
    conditions = [
        Comparison(name, "=", seen[name]) for name in ("chain", "leader_epoch", "stretches")
    ]
    try:
        yield UpdateRow(
            partition_pk(*key),
            partition_sk(*key),
            {"stretches": short.row()["stretches"]},
            conditions,
        )
    except ConditionFailed:
        return None
    return short


def shortened(row: PartitionRow, durable_end: int = 0) -> PartitionRow:
    """The row without epoch ranges that end at or below log start or `durable_end`.

    Only once the leadership-begin entry of the current epoch range is committed. `durable_end` is
    the end of the offsets that the topic's table held a grace ago and holds now (safety rule 7).
    """
    kept = [
        ref
        for ref, following in pairwise(row.epoch_ranges)
        if following.start > max(ref.start, row.log_start, durable_end)
    ]
    return replace(row, epoch_ranges=(*kept, row.epoch_ranges[-1]))


def is_shorter(row: PartitionRow, durable_end: int = 0) -> bool:
    """Whether `shortened` leaves anything out, at a tenth of its cost."""
    return any(
        following.start <= max(ref.start, row.log_start, durable_end)
        for ref, following in pairwise(row.epoch_ranges)
    )
