"""From an offset or a time to index rows, in what checkpoints hold. Leaders and readers alike.

    partition row ─▶ epoch range ─▶ chain's checkpoints ─▶ page ─▶ rows

An epoch range's end and its largest timestamp only grow along the checkpoints of its chain, so the
one that covers an offset or a time is found by binary search over their fronts, and only single
pages are read. Fronts and pages are immutable and kept in an `IndexCache`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from logstore.errors import Corrupt, Retryable
from logstore.formats.chain_state import EpochKey
from logstore.formats.checkpoint import Checkpoint, EpochRangeSummary
from logstore.formats.index_rows import (
    Rows,
    first_row_for_offset,
    row_at,
    row_count,
    row_for_time,
)
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.chain.walk import MissingCheckpoint
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.steps import Steps

Reach = Callable[[EpochRangeSummary], bool]


class BelowTrimPoint(Retryable):
    """The offset lies below a trim point: read the rows again, then the topic's table."""


class NotListed(BelowTrimPoint):
    """The offset lies below the epoch ranges that the row lists. Where it is known that the newest
    table does not hold it either, it is lost: then the caller says so, by `Corrupt`."""


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Index rows of one epoch range from `number` on; more may follow beyond `rows`."""

    key: EpochKey
    chain: int
    rows: Rows
    number: int
    front: Checkpoint | None = None
    """Of the checkpoint that has them; None: they are in memory."""

    @property
    def end_offset(self) -> int:
        return row_at(self.rows, row_count(self.rows) - 1).last_offset + 1


def rows_for_offset(
    cache: IndexCache,
    chain: int,
    checkpoints: Sequence[int],
    key: EpochKey,
    offset: int,
) -> Steps[FoundRows | None]:
    """Rows of the epoch range from the batch that holds `offset` on.

    None: no checkpoint reaches it.
    """
    checkpoint = yield from _first_reaching(
        cache, chain, checkpoints, key, lambda summary: summary.end > offset
    )
    if checkpoint is None:
        return None
    for page in checkpoint.pages_of(key):
        if page.end_offset > offset:
            rows = yield from cache.page(checkpoint, page)
            number = first_row_for_offset(rows, offset)
            if row_at(rows, number).base_offset > offset:
                break
            return FoundRows(key, chain, rows, number, checkpoint)
    yield from _check_trimmed(chain, checkpoint, key)
    raise BelowTrimPoint(f"offset is trimmed: chain={chain} offset={offset}; read its row again")


def rows_for_time(
    cache: IndexCache,
    chain: int,
    checkpoints: Sequence[int],
    key: EpochKey,
    timestamp: int,
    from_offset: int = 0,
) -> Steps[FoundRows | None]:
    """Rows of the epoch range from the first batch with a record at or after `timestamp` on.

    Batches wholly below `from_offset`, a log start, are passed over: their segments may be gone.
    """
    checkpoint = yield from _first_reaching(
        cache,
        chain,
        checkpoints,
        key,
        lambda summary: summary.max_timestamp >= timestamp and summary.end > from_offset,
    )
    if checkpoint is None:
        return None
    if from_offset <= checkpoint.epoch_ranges[key].start and not any(
        page.running_max >= timestamp for page in checkpoint.pages_of(key)
    ):
        yield from _check_trimmed(chain, checkpoint, key)
    for seq in checkpoints[checkpoints.index(checkpoint.seq) :]:
        front = yield from front_unless_trimmed(cache, chain, seq)
        if front is None:
            continue
        checkpoint = front
        for page in checkpoint.pages_of(key):
            if page.running_max >= timestamp and page.end_offset > from_offset:
                rows = yield from cache.page(checkpoint, page)
                number = row_for_time(rows, timestamp, from_offset)
                if number < row_count(rows):
                    return FoundRows(key, chain, rows, number, checkpoint)
    return None


def checkpoints_of(cache: IndexCache, chain: int, last: int) -> Steps[Sequence[int]]:
    """Seqs of every checkpoint of a chain whose last one is `last`; none if that is 0."""
    if last == 0:
        return ()
    front = yield from cache.front(chain, last)
    seqs = (*front.earlier, last)
    cache.forget_below(chain, seqs[0])
    return seqs


def _first_reaching(
    cache: IndexCache,
    chain: int,
    checkpoints: Sequence[int],
    key: EpochKey,
    reach: Reach,
) -> Steps[Checkpoint | None]:
    low, high = 0, len(checkpoints)
    first: Checkpoint | None = None
    while low < high:
        middle = (low + high) // 2
        front = yield from front_unless_trimmed(cache, chain, checkpoints[middle])
        summary = None if front is None else front.epoch_ranges.get(key)
        if summary is not None and reach(summary):
            first, high = front, middle
        else:
            low = middle + 1
    return first


def fronts_or_trimmed(
    cache: IndexCache, chain: int, seqs: Sequence[int]
) -> Steps[Sequence[Checkpoint]]:
    """Fronts of some checkpoints of a chain, `seqs` in order.

    Raises `BelowTrimPoint` if one was deleted after the list of checkpoints was read.
    """
    try:
        return (yield from cache.fronts(chain, seqs))
    except MissingCheckpoint as missing:
        if (yield from read_chain_row(chain)).trim <= seqs[0]:
            raise
        text = f"checkpoints are trimmed: chain={chain} seq={seqs[0]}; look again"
        raise BelowTrimPoint(text) from missing


def front_unless_trimmed(cache: IndexCache, chain: int, seq: int) -> Steps[Checkpoint | None]:
    """None when the checkpoint was deleted: all that it led to is below the trim point.

    A list of checkpoints may be older than the trim point, up to its last one, where a chain is
    followed or was looked up before. Only the chain's row tells deleted from lost.
    """
    try:
        return (yield from cache.front(chain, seq))
    except MissingCheckpoint:
        if (yield from read_chain_row(chain)).trim < seq:
            raise
        return None


def _check_trimmed(chain: int, checkpoint: Checkpoint, key: EpochKey) -> Steps[None]:
    """Rows that `checkpoint` does not have may be in one before it, if that was trimmed."""
    row = yield from read_chain_row(chain)
    if checkpoint.from_seq <= row.trim and row.trim > 0:
        return
    raise Corrupt(
        f"checkpoint lacks rows it should hold: epoch={chain} seq={checkpoint.seq} "
        f"{key.topic_partition}"
    )
