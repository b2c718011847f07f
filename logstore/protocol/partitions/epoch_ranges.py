"""Look-ups in one partition across its epoch ranges, in what checkpoints hold.

The current epoch range of an open chain extends beyond its last checkpoint; offsets beyond are
looked up in the memory of its leader, or of a reader that follows the chain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from logstore.formats.chain_row import ChainStatus
from logstore.formats.chain_state import EpochKey
from logstore.formats.partition_row import EpochEntry
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.partitions.lookup import FoundRows, checkpoints_of, rows_for_offset
from logstore.protocol.steps import Steps


@dataclass(slots=True)
class ChainCheckpoints:
    """Which checkpoints chains have; for those in `live` their owner is asked each time."""

    cache: IndexCache
    live: dict[int, Callable[[], Sequence[int]]] = field(default_factory=dict)
    _sealed: dict[int, Sequence[int]] = field(default_factory=dict)

    def of(self, chain: int) -> Steps[Sequence[int]]:
        if chain in self.live:
            seqs = self.live[chain]()
            if seqs:
                self.cache.forget_below(chain, seqs[0])
            return seqs
        known = self._sealed.get(chain)
        if known is not None:
            return known
        row = yield from read_chain_row(chain)
        checkpoints = yield from checkpoints_of(self.cache, chain, row.checkpoint)
        if row.status is ChainStatus.SEALED:
            self._sealed[chain] = checkpoints
        return checkpoints


def epoch_range_of(epoch_ranges: Sequence[EpochEntry], offset: int) -> EpochEntry:
    """The epoch range that holds `offset`, or would: the last that starts at or below it."""
    entry = epoch_ranges[0]
    for ref in epoch_ranges:
        if ref.start <= offset:
            entry = ref
    return entry


def first_in_segments(
    cache: IndexCache,
    topic_id: bytes,
    partition: int,
    epoch_ranges: Sequence[EpochEntry],
) -> Steps[int]:
    """The smallest offset whose segment is not below a trim point, by the chains' rows as of now.

    Offsets below it are in the topic's table, or nowhere.
    """
    for number, ref in enumerate(epoch_ranges):
        start = ref.start
        row = yield from read_chain_row(ref.chain)
        if row.trim > 0:
            # A trim point is a checkpoint, which covers exactly the segments below it.
            front = yield from cache.front(ref.chain, row.trim)
            summary = front.epoch_ranges.get(EpochKey(topic_id, partition, ref.leader_epoch))
            start = start if summary is None else max(start, summary.end)
        following = epoch_ranges[number + 1 :]
        if not following or start < following[0].start:
            return start
    raise AssertionError("a partition has an epoch range")


def locate_offset(
    checkpoints: ChainCheckpoints,
    topic_id: bytes,
    partition: int,
    epoch_ranges: Sequence[EpochEntry],
    offset: int,
) -> Steps[FoundRows | None]:
    """Index rows from the batch that holds `offset` on; None: beyond every checkpoint."""
    ref = epoch_range_of(epoch_ranges, offset)
    key = EpochKey(topic_id, partition, ref.leader_epoch)
    known = yield from checkpoints.of(ref.chain)
    return (yield from rows_for_offset(checkpoints.cache, ref.chain, known, key, offset))
