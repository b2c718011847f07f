"""Producers of a partition as administrators see them. Pure.

Kafka's `UnifiedLog.activeProducers`: every idempotent producer whose state the partition keeps,
also those that write no more and are not forgotten yet.
"""

from typing import NamedTuple

from logstore.formats.partition_state import PartitionState, epoch_of, last_batch_of
from logstore.slices import Slices

SLICE_PRODUCERS = 1_000
"""Some two milliseconds of work."""

NONE = -1


class ActiveProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1: nothing of this epoch was written."""
    last_timestamp: int
    """Of its last batch, ms; -1 without one."""
    first_open_offset: int
    """Where its open transaction begins; -1 without one."""


def active_producers(state: PartitionState) -> Slices[list[ActiveProducer]]:
    """By producer id; `state` may be changed between slices."""
    shown = []
    for number, producer_id in enumerate(sorted(state.producers)):
        if number and number % SLICE_PRODUCERS == 0:
            yield
        packed = state.producers.get(producer_id)
        if packed is None:
            continue
        last = last_batch_of(packed)
        shown.append(
            ActiveProducer(
                producer_id,
                epoch_of(packed),
                NONE if last is None else last.last_sequence,
                NONE if last is None else last.timestamp,
                state.open_transactions.get(producer_id, NONE),
            )
        )
    return shown
