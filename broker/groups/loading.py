"""Reads a partition of `__consumer_offsets` from log start to its end, in bounded pieces."""

import logging

from broker.groups.batches import decode_changes
from broker.groups.key_compaction import LogShape
from broker.groups.log_port import PartitionLog
from broker.groups.state import GroupStates
from logstore.clock import Clock

PIECE_BYTES = 1 << 20
WAIT_S = 0.02

logger = logging.getLogger(__name__)


async def load_states(log: PartitionLog, clock: Clock) -> tuple[GroupStates, LogShape]:
    """What the records say, and what lies there. Raises as the store does.

    Others run between two pieces; of one piece's records each takes some ten microseconds.
    """
    states, shape, at = GroupStates(), LogShape(), log.start
    skipped = 0
    while at < max(log.high_watermark, log.end):
        piece = await log.read(at, PIECE_BYTES)
        for batch in piece.batches:
            count = 0
            for change in decode_changes(batch):
                count += 1
                if change is None:
                    skipped += 1
                else:
                    states.apply(change)
            shape.found(count)
        at = piece.end_offset
        await clock.sleep_s(0 if piece.batches else WAIT_S)
    if skipped:
        logger.warning("records passed over: partition=%d records=%d", log.partition, skipped)
    return states, shape
