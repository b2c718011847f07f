"""Raise the log start of a partition: records below it are gone for every reader. Pure.

Only the leader may: it knows the high watermark, which log start never passes. So the row changes
only while it names that leadership, and only upwards. Segments are deleted later, by trimming.
"""

from collections.abc import Sequence
from typing import NamedTuple

from logstore.errors import ConditionFailed, Invalid, LogstoreError
from logstore.formats.partition_row import PartitionRow, StartReason, partition_pk, partition_sk
from logstore.ports.registry import Comparison, Row
from logstore.protocol.steps import Gather, Steps, UpdateRow

HIGH_WATERMARK = -1
"""Instead of an offset: everything that is committed."""


class OffsetOutOfRange(Invalid):
    """No log can start there."""


def new_log_start(offset: int, *, high_watermark: int) -> int:
    """Where the log is to start. Raises `OffsetOutOfRange`."""
    wanted = high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= wanted <= high_watermark:
        raise OffsetOutOfRange(
            f"cannot delete records up to there: offset={offset} high_watermark={high_watermark}"
        )
    return wanted


class Raise(NamedTuple):
    """`chain` and `leader_epoch` are those of the leader. Nothing is deleted without `reason`."""

    topic_id: bytes
    partition: int
    chain: int
    leader_epoch: int
    offset: int
    reason: StartReason = StartReason.RECORDS_DELETED


def raise_log_starts(wanted: Sequence[Raise]) -> Steps[Sequence[int | LogstoreError | None]]:
    """As `raise_log_start` for each, in order."""
    outcomes: Sequence[int | LogstoreError | None] = yield Gather(
        [raise_log_start(one) for one in wanted]
    )
    return outcomes


def raise_log_start(wanted: Raise) -> Steps[int | None]:
    """Log start as it is afterwards, `offset` or above; None: another leadership has begun."""
    topic_id, partition, chain, leader_epoch, offset, reason = wanted
    pk, sk = partition_pk(topic_id, partition), partition_sk(topic_id, partition)
    conditions = [
        Comparison("chain", "=", chain),
        Comparison("leader_epoch", "=", leader_epoch),
        Comparison("log_start", "<", offset),
    ]
    try:
        sets: Row = {"log_start": offset, "start_reason": reason.to(offset)}
        yield UpdateRow(pk, sk, sets, conditions)
    except ConditionFailed as failed:
        row = None if failed.current is None else PartitionRow.of(failed.current)
        if row is None or (row.chain, row.leader_epoch) != (chain, leader_epoch):
            return None
        return row.log_start
    return offset
