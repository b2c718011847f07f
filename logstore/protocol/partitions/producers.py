"""May this batch of an idempotent producer be appended? Kafka's rules, decided on values.

    unknown producer, or one that expired   → append, whatever its sequence (KIP-360)
    older epoch                             → STALE_EPOCH
    newer epoch, first sequence not 0       → OUT_OF_ORDER
    exactly one of the last five batches    → duplicate: answer with its offset
    continues the last sequence (wraps)     → append
    else                                    → OUT_OF_ORDER

A batch may overtake a predecessor (`is_ahead`): a producer has several batches in flight, and a
leader rejects some of them when its leadership begins or ends. On OUT_OF_ORDER librdkafka bumps its
epoch for all partitions and resends batches that are stored already, in the new epoch; so such a
batch is not answered at once (`epoch.leader`).

The state holds batches as soon as they are appended, before they are committed, so a repeat of what
is still in flight is found too; its answer waits for the same commit. It may still hold producers
that have expired, until a checkpoint drops them: they are unknown by the time of the chain,
`created_ms` of the segment that takes the batch, as they are to `PartitionState.apply_batch`. So
the answer does not depend on when checkpoints are written, nor on who replays the chain. Authority:
Kafka's ProducerAppendInfo.checkSequence and ProducerStateEntry.findDuplicateBatch.
"""

from enum import Enum

from logstore.formats.partition_state import (
    PartitionState,
    ProducedBatch,
    epoch_of,
    last_batch_of,
    unpack_producer,
)
from logstore.records.batch import SEQUENCE_MAX

AHEAD_MAX = SEQUENCE_MAX // 2
"""Sequences wrap: further ahead than half of them is behind."""


class Refusal(Enum):
    STALE_EPOCH = "stale epoch"
    OUT_OF_ORDER = "out of order sequence"


def judge(
    state: PartitionState,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    created_ms: int,
) -> ProducedBatch | Refusal | None:
    """None: append it. A `ProducedBatch`: it was appended before, as that. Else why not."""
    packed = state.live_producer(producer_id, created_ms)
    if packed is None:
        return None
    known_epoch = epoch_of(packed)
    if producer_epoch != known_epoch:
        if producer_epoch < known_epoch:
            return Refusal.STALE_EPOCH
        return None if base_sequence == 0 else Refusal.OUT_OF_ORDER
    last = last_batch_of(packed)
    if last is None:
        return None if base_sequence == 0 else Refusal.OUT_OF_ORDER
    if base_sequence == (last.last_sequence + 1) & SEQUENCE_MAX:
        return None  # of most batches this is all that is asked: no repeat begins there
    last_sequence = (base_sequence + record_count - 1) & SEQUENCE_MAX
    for batch in unpack_producer(packed).batches:
        if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
            return batch
    return Refusal.OUT_OF_ORDER


def is_ahead(
    state: PartitionState,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    created_ms: int,
) -> bool:
    """Whether a batch before this one may be still on its way here."""
    packed = state.live_producer(producer_id, created_ms)
    if packed is None or producer_epoch > (known_epoch := epoch_of(packed)):
        return base_sequence != 0
    if producer_epoch < known_epoch:
        return False
    last = last_batch_of(packed)
    expected = 0 if last is None else (last.last_sequence + 1) & SEQUENCE_MAX
    return 0 < (base_sequence - expected) & SEQUENCE_MAX <= AHEAD_MAX
