"""Look-ups by time across the epoch ranges of a partition whose chains are all sealed."""

from collections.abc import Sequence

from logstore.formats.chain_state import EpochKey
from logstore.formats.partition_row import EpochEntry
from logstore.protocol.partitions.epoch_ranges import ChainCheckpoints
from logstore.protocol.partitions.lookup import FoundRows, rows_for_time
from logstore.protocol.steps import Steps


def locate_time(
    checkpoints: ChainCheckpoints,
    topic_id: bytes,
    partition: int,
    epoch_ranges: Sequence[EpochEntry],
    timestamp: int,
    from_offset: int = 0,
) -> Steps[FoundRows | None]:
    """Index rows from the first batch with a record at or after `timestamp` on, if any.

    `from_offset` is the log start: what is below it may be gone.
    """
    for ref in epoch_ranges:
        key = EpochKey(topic_id, partition, ref.leader_epoch)
        known = yield from checkpoints.of(ref.chain)
        found = yield from rows_for_time(
            checkpoints.cache, ref.chain, known, key, timestamp, from_offset
        )
        if found is not None:
            return found
    return None


def locate_max_timestamp(
    checkpoints: ChainCheckpoints,
    topic_id: bytes,
    partition: int,
    epoch_ranges: Sequence[EpochEntry],
) -> Steps[tuple[int, int]]:
    """Largest timestamp in checkpoints and an offset in its batch; (-1, -1) without records."""
    best = (-1, -1)
    for ref in epoch_ranges:
        known = yield from checkpoints.of(ref.chain)
        if not known:
            continue
        front = yield from checkpoints.cache.front(ref.chain, known[-1])
        summary = front.epoch_ranges.get(EpochKey(topic_id, partition, ref.leader_epoch))
        if summary is not None and summary.max_timestamp > best[0]:
            best = (summary.max_timestamp, summary.max_timestamp_offset)
    return best
