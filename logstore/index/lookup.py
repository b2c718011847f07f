"""From an offset or a time to index rows, in what checkpoints hold. Leaders and readers alike.

    partition row ─▶ stretch ─▶ chain's checkpoints ─▶ page ─▶ rows

A stretch's end and its largest timestamp only grow along the checkpoints of its chain, so the one
that covers an offset or a time is found by binary search over their fronts, and only single pages
are read. Fronts and pages are immutable and kept in an `IndexCache`.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from logstore.chains.checkpoint import Checkpoint, Page, StretchSummary
from logstore.chains.keys import checkpoint_key
from logstore.chains.replay import StretchKey
from logstore.chains.walk import get_patiently, read_checkpoint
from logstore.errors import Corrupt
from logstore.index.rows import (
    Rows,
    first_row_for_offset,
    first_row_for_time,
    row_at,
    row_count,
)
from logstore.records.crc32c import crc32c
from logstore.segments.format import Place
from logstore.steps import Steps

Reach = Callable[[StretchSummary], bool]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Index rows of one stretch from `number` on; more may follow beyond `rows`."""

    key: StretchKey
    chain: int
    rows: Rows
    number: int
    places: Sequence[Place] = ()

    @property
    def end_offset(self) -> int:
        return row_at(self.rows, row_count(self.rows) - 1).last_offset + 1


class IndexCache:
    """Fronts and pages of checkpoints, least recently used first out."""

    def __init__(self, *, fronts_max: int = 64, pages_bytes_max: int = 32 * 1024 * 1024) -> None:
        self._fronts: OrderedDict[tuple[int, int], Checkpoint] = OrderedDict()
        self._pages: OrderedDict[tuple[int, int, int], bytes] = OrderedDict()
        self._fronts_max = fronts_max
        self._pages_bytes_max = pages_bytes_max
        self._pages_bytes = 0

    def front(self, epoch: int, seq: int) -> Steps[Checkpoint]:
        found = self._fronts.get((epoch, seq))
        if found is None:
            found = yield from read_checkpoint(epoch, seq)
            self._fronts[epoch, seq] = found
            if len(self._fronts) > self._fronts_max:
                self._fronts.popitem(last=False)
        else:
            self._fronts.move_to_end((epoch, seq))
        return found

    def page(self, checkpoint: Checkpoint, page: Page) -> Steps[bytes]:
        name = (checkpoint.epoch, checkpoint.seq, page.position)
        found = self._pages.get(name)
        if found is not None:
            self._pages.move_to_end(name)
            return found
        key = checkpoint_key(checkpoint.epoch, checkpoint.seq)
        start = checkpoint.pages_at + page.position
        found = yield from get_patiently(key, start, page.byte_count)
        if len(found) != page.byte_count or crc32c(found) != page.crc:
            raise Corrupt(f"index page fails its checksum: key={key} position={page.position}")
        if name not in self._pages:
            self._pages[name] = found
            self._pages_bytes += len(found)
        while self._pages_bytes > self._pages_bytes_max and len(self._pages) > 1:
            _, dropped = self._pages.popitem(last=False)
            self._pages_bytes -= len(dropped)
        return found


def rows_for_offset(
    cache: IndexCache,
    chain: int,
    checkpoints: Sequence[int],
    key: StretchKey,
    offset: int,
) -> Steps[FoundRows | None]:
    """Rows of the stretch from the batch that holds `offset` on; None: no checkpoint reaches it."""
    checkpoint = yield from _first_reaching(
        cache, chain, checkpoints, key, lambda summary: summary.end > offset
    )
    if checkpoint is None:
        return None
    for page in checkpoint.pages_of(key):
        if page.end_offset > offset:
            rows = yield from cache.page(checkpoint, page)
            number = first_row_for_offset(rows, offset)
            return FoundRows(key, chain, rows, number, checkpoint.places)
    raise _hole(chain, checkpoint, key)


def rows_for_time(
    cache: IndexCache,
    chain: int,
    checkpoints: Sequence[int],
    key: StretchKey,
    timestamp: int,
) -> Steps[FoundRows | None]:
    """Rows of the stretch from the first batch with a record at or after `timestamp` on."""
    checkpoint = yield from _first_reaching(
        cache,
        chain,
        checkpoints,
        key,
        lambda summary: summary.max_timestamp >= timestamp,
    )
    if checkpoint is None:
        return None
    for page in checkpoint.pages_of(key):
        if page.running_max >= timestamp:
            rows = yield from cache.page(checkpoint, page)
            number = first_row_for_time(rows, timestamp)
            return FoundRows(key, chain, rows, number, checkpoint.places)
    raise _hole(chain, checkpoint, key)


def checkpoints_of(cache: IndexCache, chain: int, last: int) -> Steps[Sequence[int]]:
    """Seqs of every checkpoint of a chain whose last one is `last`; none if that is 0."""
    if last == 0:
        return ()
    front = yield from cache.front(chain, last)
    return (*front.earlier, last)


def _first_reaching(
    cache: IndexCache,
    chain: int,
    checkpoints: Sequence[int],
    key: StretchKey,
    reach: Reach,
) -> Steps[Checkpoint | None]:
    low, high = 0, len(checkpoints)
    found: Checkpoint | None = None
    while low < high:
        middle = (low + high) // 2
        front = yield from cache.front(chain, checkpoints[middle])
        summary = front.stretches.get(key)
        if summary is not None and reach(summary):
            found, high = front, middle
        else:
            low = middle + 1
    return found


def _hole(chain: int, checkpoint: Checkpoint, key: StretchKey) -> Corrupt:
    return Corrupt(
        f"checkpoint lacks rows it should hold: epoch={chain} seq={checkpoint.seq} "
        f"topic={key.topic_id.hex()} partition={key.partition}"
    )
