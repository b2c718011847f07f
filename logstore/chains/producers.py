"""May this batch of an idempotent producer be appended? Kafka's rules, decided on values.

    nothing known of the producer here      → append, whatever its sequence (KIP-360)
    older epoch                             → STALE_EPOCH
    newer epoch, first sequence not 0       → OUT_OF_ORDER
    exactly one of the last five batches    → repeat: answer with what that one got
    continues the last sequence (wraps)     → append
    else                                    → OUT_OF_ORDER

The state holds batches as soon as they are appended, before they are committed, so a repeat of what
is still in flight is found too; its answer waits for the same commit. Authority: Kafka's
ProducerAppendInfo.checkSequence and ProducerStateEntry.findDuplicateBatch.
"""

from enum import Enum

from logstore.chains.state import PartitionState, ProducedBatch


class Refusal(Enum):
    STALE_EPOCH = "stale epoch"
    OUT_OF_ORDER = "out of order sequence"


def judge(
    state: PartitionState,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> ProducedBatch | Refusal | None:
    """None: append it. A `ProducedBatch`: it was appended before, as that. Else why not."""
    producer = state.producers.get(producer_id)
    if producer is None:
        return None
    if producer_epoch != producer.epoch:
        if producer_epoch < producer.epoch:
            return Refusal.STALE_EPOCH
        return None if base_sequence == 0 else Refusal.OUT_OF_ORDER
    last_sequence = (base_sequence + record_count - 1) & 0x7FFFFFFF
    for batch in producer.batches:
        if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
            return batch
    if not producer.batches:
        return None if base_sequence == 0 else Refusal.OUT_OF_ORDER
    expected = (producer.batches[-1].last_sequence + 1) & 0x7FFFFFFF
    return None if base_sequence == expected else Refusal.OUT_OF_ORDER
