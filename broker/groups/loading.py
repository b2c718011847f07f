"""Reads a partition of `__consumer_offsets` from log start to its end, in bounded chunks."""

import asyncio
import logging

from broker.groups.decisions.batches import decode_changes
from broker.groups.decisions.key_compaction import LogShape
from broker.groups.decisions.newer_records import NewerRecord, NewerRecords
from broker.groups.decisions.state import GroupStates
from broker.groups.log_port import PartitionLog
from logstore.ports.clock import Clock

CHUNK_BYTES = 1 << 20
GROUPS_SHOWN_MAX = 5
WAIT_S = 0.02
READ_TIMEOUT_S = 30.0
"""Of one chunk. All of them take as long as they take: to begin again would take as long again."""

logger = logging.getLogger(__name__)


async def load_states(log: PartitionLog, clock: Clock) -> tuple[GroupStates, LogShape]:
    """The groups' state from the records, and their size; a part of both if leadership ends.

    Other tasks run between two chunks; each record of a chunk takes some ten microseconds. Raises
    as the store does, or `TimeoutError` when it does not answer.
    """
    states, shape, at = GroupStates(), LogShape(), log.start
    skipped = 0
    while log.is_led and at < max(log.high_watermark, log.end):
        async with asyncio.timeout(READ_TIMEOUT_S):
            chunk = await log.read(at, CHUNK_BYTES)
        for batch in chunk.batches:
            count = 0
            for change in decode_changes(batch):
                count += 1
                if change is None:
                    skipped += 1
                elif isinstance(change, NewerRecord):
                    states.apply_newer(change)
                else:
                    states.apply(change)
            shape.found(count)
        at = chunk.end_offset
        await clock.sleep_s(0 if chunk.batches else WAIT_S)
    if skipped:
        logger.warning(
            "records skipped, damaged or without a key: partition=%d records=%d",
            log.partition,
            skipped,
        )
    if states.newer:
        _report_newer(log.partition, states.newer)
    return states, shape


def _report_newer(partition: int, newer: NewerRecords) -> None:
    groups = newer.groups
    logger.error(
        "a newer version wrote records of groups, which are kept and not understood: "
        "partition=%d records=%d groups=%d (%s); their members wait until a broker of that "
        "version coordinates them%s",
        partition,
        len(newer),
        len(groups),
        ", ".join(groups[:GROUPS_SHOWN_MAX]),
        ""
        if newer.is_whole
        else "; there are too many to write them again, so the partition grows",
    )
