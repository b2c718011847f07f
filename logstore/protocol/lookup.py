"""From an offset or a time to index rows, in what checkpoints hold. Leaders and readers alike.

    partition row ─▶ epoch range ─▶ chain's checkpoints ─▶ page ─▶ rows

An epoch range's end and its largest timestamp only grow along the checkpoints of its chain, so the
one that covers an offset or a time is found by binary search over their fronts, and only single
pages are read. Fronts and pages are immutable and kept in an `IndexCache`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from logstore.errors import Corrupt, LogstoreError, Retryable
from logstore.formats.chain_state import EpochKey
from logstore.formats.checkpoint import Checkpoint, EpochRangeSummary, IndexPage
from logstore.formats.index_rows import (
    Rows,
    first_row_for_offset,
    row_at,
    row_count,
    row_for_time,
)
from logstore.formats.keys import checkpoint_key
from logstore.protocol.seal import read_chain_row
from logstore.protocol.steps import Gather, Steps
from logstore.protocol.walk import MissingCheckpoint, get_retrying, read_checkpoint
from logstore.records.crc32c import crc32c

Reach = Callable[[EpochRangeSummary], bool]

READ_BYTES = 256 * 1024
"""Of index pages, about this much is read at a time: on S3 it takes as long as a single page."""


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


class IndexCache:
    """Fronts and pages of checkpoints, least recently used first out."""

    def __init__(self, *, fronts_max: int = 64, pages_bytes_max: int = 32 * 1024 * 1024) -> None:
        self._fronts: OrderedDict[tuple[int, int], Checkpoint] = OrderedDict()
        self._pages: OrderedDict[tuple[int, int, int], bytes] = OrderedDict()
        self._fronts_max = fronts_max
        self._pages_bytes_max = pages_bytes_max
        self._pages_bytes = 0

    def front(self, epoch: int, seq: int) -> Steps[Checkpoint]:
        front = self._fronts.get((epoch, seq))
        if front is None:
            front = yield from read_checkpoint(epoch, seq)
            self._fronts[epoch, seq] = front
            if len(self._fronts) > self._fronts_max:
                self._fronts.popitem(last=False)
        else:
            self._fronts.move_to_end((epoch, seq))
        return front

    def fronts(self, epoch: int, seqs: Sequence[int]) -> Steps[list[Checkpoint]]:
        """Those of several checkpoints, asked for together; they are not kept."""
        known = [self._fronts.get((epoch, seq)) for seq in seqs]
        places = zip(seqs, known, strict=True)
        missing = [read_checkpoint(epoch, seq) for seq, one in places if one is None]
        outcomes: Sequence[Checkpoint | LogstoreError] = yield Gather(missing)
        others = iter(outcomes)
        fronts = []
        for one in known:
            front = next(others) if one is None else one
            if isinstance(front, LogstoreError):
                raise front
            fronts.append(front)
        return fronts

    def page(self, checkpoint: Checkpoint, page: IndexPage) -> Steps[bytes]:
        name = (checkpoint.epoch, checkpoint.seq, page.position)
        cached = self._pages.get(name)
        if cached is not None:
            self._pages.move_to_end(name)
            return cached
        return (yield from self._read_with_neighbours(checkpoint, page))

    def warm(self, wanted: Iterable[tuple[Checkpoint, IndexPage]]) -> Steps[None]:
        """Read those pages that are not kept, together, each with its neighbours."""
        near: dict[tuple[int, int, int], tuple[Checkpoint, IndexPage]] = {}
        for checkpoint, page in wanted:
            if (checkpoint.epoch, checkpoint.seq, page.position) not in self._pages:
                read = (checkpoint.epoch, checkpoint.seq, self.read_of(page))
                near.setdefault(read, (checkpoint, page))
        reads = [_Neighbours.of(*one) for one in near.values()]
        outcomes: Sequence[bytes | LogstoreError] = yield Gather([one.read() for one in reads])
        for one, data in zip(reads, outcomes, strict=True):
            if isinstance(data, LogstoreError):
                raise data
            for position, page_bytes in one.whole_pages(data):
                self._keep((one.checkpoint.epoch, one.checkpoint.seq, position), page_bytes)

    @staticmethod
    def read_of(page: IndexPage) -> int:
        """Pages of one checkpoint with the same number are read together."""
        return page.position // READ_BYTES

    def _read_with_neighbours(self, checkpoint: Checkpoint, page: IndexPage) -> Steps[bytes]:
        """Reads neighbours too.

        Pages of a busy chain are small, and access is mostly sequential.
        """
        near = _Neighbours.of(checkpoint, page)
        wanted: bytes | None = None
        for position, data in near.whole_pages((yield from near.read())):
            self._keep((checkpoint.epoch, checkpoint.seq, position), data)
            wanted = data if position == page.position else wanted
        if wanted is None:
            key = checkpoint_key(checkpoint.epoch, checkpoint.seq)
            raise Corrupt(f"index page fails its checksum: key={key} position={page.position}")
        return wanted

    def _keep(self, name: tuple[int, int, int], page: bytes) -> None:
        if name not in self._pages:
            self._pages[name] = page
            self._pages_bytes += len(page)
        while self._pages_bytes > self._pages_bytes_max and len(self._pages) > 1:
            _, dropped = self._pages.popitem(last=False)
            self._pages_bytes -= len(dropped)


class _Neighbours(NamedTuple):
    """Pages that lie together, read at once."""

    checkpoint: Checkpoint
    pages: Sequence[IndexPage]

    @classmethod
    def of(cls, checkpoint: Checkpoint, page: IndexPage) -> "_Neighbours":
        return cls(checkpoint, checkpoint.pages_near(page, READ_BYTES))

    @property
    def begin(self) -> int:
        return self.pages[0].position

    def read(self) -> Steps[bytes]:
        key = checkpoint_key(self.checkpoint.epoch, self.checkpoint.seq)
        end = self.pages[-1].position + self.pages[-1].byte_count
        return get_retrying(key, self.checkpoint.pages_at + self.begin, end - self.begin)

    def whole_pages(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """(position, bytes) of those that are as the checkpoint says."""
        for page in self.pages:
            at = page.position - self.begin
            page_data = data[at : at + page.byte_count]
            if len(page_data) == page.byte_count and crc32c(page_data) == page.crc:
                yield page.position, page_data


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
    return (*front.earlier, last)


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
        f"topic={key.topic_id.hex()} partition={key.partition}"
    )
