"""Delete the segments below a published trim point, once its grace has passed. Repeatable.

    a round of segments upwards, then the checkpoints below its end; then the row says how far it is

In this order the remaining objects show how far a chain was trimmed, should the registry be lost.
Segments and checkpoints that the row records as deleted are not deleted again.
Readers that meet a 404 read the chain's row again and find the trim point above it (rule 6).
"""

from bisect import bisect_left
from collections.abc import Sequence

from logstore.errors import ConditionFailed, LogstoreError
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.keys import checkpoint_key, segment_key
from logstore.ports.registry import Comparison
from logstore.protocol.rules.trim import segments_to_delete
from logstore.protocol.steps import Delete, Gather, Steps, UpdateRow, retried

ATTEMPTS_MAX = 8
SEGMENTS_PER_ROUND = 1024
"""Segments deleted between two updates of the row: at most these are repeated after a crash."""


def publish_trim(epoch: int, row: ChainRow, trim: int, now_ms: int) -> Steps[bool]:
    """Raise the trim point; False: it was changed concurrently, or the row forbids it.

    A request may land long after it was sent. `trim_ms` tells a row that was restored since, whose
    trim point may be the same: this one was allowed by log starts that may have gone back.
    """
    conditions = [
        Comparison("trim", "=", row.trim),
        Comparison("trim_ms", "=", row.trim_ms),
        Comparison("checkpoint", ">=", trim),
    ]
    try:
        yield UpdateRow(CHAIN, chain_sk(epoch), {"trim": trim, "trim_ms": now_ms}, conditions)
    except ConditionFailed:
        return False
    return True


def delete_below_trim(epoch: int, row: ChainRow, checkpoints: Sequence[int]) -> Steps[int]:
    """Delete; how many objects were asked to go. `checkpoints` are the chain's, in order."""
    count, left, done = 0, segments_to_delete(row), row.deleted
    while done < row.trim:
        some, left = left[:SEGMENTS_PER_ROUND], left[SEGMENTS_PER_ROUND:]
        count += yield from _delete([segment_key(epoch, seq) for seq in some])
        end = some.stop if left else row.trim
        gone = checkpoints[bisect_left(checkpoints, done) : bisect_left(checkpoints, end)]
        count += yield from _delete([checkpoint_key(epoch, seq) for seq in gone])
        if not (yield from _note_deleted(epoch, row, end)):
            return count
        done = end
    return count


def _note_deleted(epoch: int, row: ChainRow, deleted: int) -> Steps[bool]:
    try:
        conditions = [Comparison("trim", "=", row.trim)]
        yield UpdateRow(CHAIN, chain_sk(epoch), {"deleted": deleted}, conditions)
    except ConditionFailed:
        return False  # another is further than we are
    return True


def _delete(keys: Sequence[str]) -> Steps[int]:
    deletes = [retried(Delete(key), attempts_max=ATTEMPTS_MAX) for key in keys]
    results: Sequence[LogstoreError | None] = yield Gather(deletes)
    for result in results:
        if isinstance(result, LogstoreError):
            raise result
    return len(keys)
