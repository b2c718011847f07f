"""From a seq to an offset: where an epoch range stood before a segment of its chain.

A plan divides a chain by seqs. Its segments may be gone when a task comes for them, so the plan
also gives each task the offsets of its part. The index knows them while the segments are there:

    seqs      5         6         7       8         9          split at 7
    offsets   [40, 52)  [52, 60)  -       [60, 75)  [75, 80)   the end below 7 is 60

Offsets of an epoch range are dense, so the end below a seq is also the first offset at or above it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.checkpoint import Checkpoint, IndexPage
from logstore.formats.index_rows import first_row_for_seq, row_at, row_count
from logstore.formats.segment_ranges import SplitPoint
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.partitions.lookup import fronts_or_trimmed
from logstore.protocol.steps import Steps

FRONTS_TOGETHER = 32
READS_TOGETHER = 32
"""Of index pages: 8 MiB, which the cache has room for."""


class ChainSplit(NamedTuple):
    """An epoch range of some chain, to be split before segment `seq`."""

    key: EpochKey
    seq: int


def chain_split(split: SplitPoint) -> ChainSplit:
    segments, seq = split
    return ChainSplit(
        EpochKey(
            segments.offsets.topic_id,
            segments.offsets.number,
            segments.leader_epoch,
        ),
        seq,
    )


class _Place(NamedTuple):
    split: ChainSplit
    checkpoint: Checkpoint
    pages: Sequence[IndexPage]
    """Of the epoch range, in this checkpoint."""


def end_in_memory(chain: ChainState, split: ChainSplit) -> int:
    """End of the epoch range below the split; that is not below the chain's last checkpoint."""
    epoch_range = chain.epoch_ranges[split.key]
    number = first_row_for_seq(epoch_range.rows, split.seq)
    if number < row_count(epoch_range.rows):
        return row_at(epoch_range.rows, number).base_offset
    return epoch_range.end


def ends_in_checkpoints(
    cache: IndexCache, chain: int, checkpoints: Sequence[int], splits: Iterable[ChainSplit]
) -> Steps[dict[ChainSplit, int]]:
    """The end of each epoch range below its split.

    Raises `Corrupt` if no checkpoint covers it, `BelowTrimPoint` if that has been deleted.

    About one read for 256 KiB of index pages; of checkpoints that no split lies in, none.
    """
    by_checkpoint = _by_checkpoint(chain, checkpoints, splits)
    seqs = sorted(by_checkpoint)
    ends: dict[ChainSplit, int] = {}
    for at in range(0, len(seqs), FRONTS_TOGETHER):
        together = seqs[at : at + FRONTS_TOGETHER]
        fronts = yield from fronts_or_trimmed(cache, chain, together)
        places = [
            _Place(split, front, list(front.pages_of(split.key)))
            for seq, front in zip(together, fronts, strict=True)
            for split in sorted(by_checkpoint[seq])  # pages of one epoch range lie together
        ]
        for some in _read_together(cache, places):
            yield from cache.warm(
                [(one.checkpoint, _middle(one.pages)) for one in some if one.pages]
            )
            for one in some:
                ends[one.split] = yield from _end_below(cache, one)
    return ends


def _by_checkpoint(
    chain: int, checkpoints: Sequence[int], splits: Iterable[ChainSplit]
) -> dict[int, list[ChainSplit]]:
    """Groups by checkpoint: a seq is covered by the first checkpoint above it."""
    by_checkpoint: dict[int, list[ChainSplit]] = {}
    for split in splits:
        place = bisect_right(checkpoints, split.seq)
        if place == len(checkpoints):
            raise Corrupt(f"no checkpoint covers a segment: chain={chain} seq={split.seq}")
        by_checkpoint.setdefault(checkpoints[place], []).append(split)
    return by_checkpoint


def _read_together(cache: IndexCache, places: Sequence[_Place]) -> Iterator[list[_Place]]:
    some: list[_Place] = []
    reads: set[tuple[int, int]] = set()
    for one in places:
        if one.pages:
            reads.add((one.checkpoint.seq, cache.read_of(_middle(one.pages))))
        if len(reads) > READS_TOGETHER:
            yield some
            some, reads = [], {(one.checkpoint.seq, cache.read_of(_middle(one.pages)))}
        some.append(one)
    if some:
        yield some


def _middle(pages: Sequence[IndexPage]) -> IndexPage:
    """Where the search below begins."""
    return pages[len(pages) // 2]


def _end_below(cache: IndexCache, place: _Place) -> Steps[int]:
    """Pages name offsets and no seqs: which of them reaches the split is found by reading a few."""
    (key, seq), front, pages = place
    low, high = 0, len(pages)
    while low < high:
        middle = (low + high) // 2
        rows = yield from cache.page(front, pages[middle])
        if row_at(rows, row_count(rows) - 1).seq < seq:
            low = middle + 1
        else:
            high = middle
    if low < len(pages):
        rows = yield from cache.page(front, pages[low])
        return row_at(rows, first_row_for_seq(rows, seq)).base_offset
    if pages:
        return pages[-1].end_offset
    summary = front.epoch_ranges.get(key)
    if summary is None:
        raise Corrupt(
            f"checkpoint lacks an epoch range that it should hold: epoch={front.epoch} "
            f"seq={front.seq} "
            f"{key}"
        )
    return summary.end
