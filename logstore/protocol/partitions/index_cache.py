"""Fronts and index pages of checkpoints in memory: they are immutable, and read again and again.

Both share one bound in bytes. What lies below the first checkpoint of a chain goes when that moves,
since nothing leads there any more; else what was used least lately goes first. Steps.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from logstore.errors import Corrupt, LogstoreError
from logstore.formats.checkpoint import Checkpoint, IndexPage
from logstore.formats.keys import checkpoint_key
from logstore.protocol.chain.walk import (
    CheckpointStart,
    get_retrying,
    read_checkpoint,
    read_checkpoint_start,
)
from logstore.protocol.steps import Gather, Steps
from logstore.records.crc32c import crc32c

INDEX_CACHE_BYTES = 32 * 1024 * 1024

READ_BYTES = 256 * 1024
"""Of index pages, about this much is read at a time: on S3 it takes as long as a single page."""

_FRONT = -1
"""Stands for the front where a page's position would be."""


class _CachePlace(NamedTuple):
    chain: int
    seq: int
    position: int


class IndexCache:
    """At most `bytes_max` of fronts and pages, but the one that was read last."""

    def __init__(self, bytes_max: int = INDEX_CACHE_BYTES) -> None:
        self.byte_count = 0
        self._bytes_max = bytes_max
        self._kept: OrderedDict[_CachePlace, Checkpoint | bytes] = OrderedDict()
        self._first: dict[int, int] = {}

    def front(self, chain: int, seq: int) -> Steps[Checkpoint]:
        front = self._kept_front(chain, seq)
        if front is None:
            start = yield from read_checkpoint_start(chain, seq)
            self.keep_start(start)
            front = start.front
        return front

    def keep_start(self, start: CheckpointStart) -> None:
        """Keep its front, and the pages that came with it."""
        front = start.front
        self._keep(_CachePlace(front.epoch, front.seq, _FRONT), front)
        for page in front.pages:
            at = front.pages_at + page.position
            page_data = start.data[at : at + page.byte_count]
            if len(page_data) < page.byte_count:
                break
            if crc32c(page_data) == page.crc:
                self._keep(_CachePlace(front.epoch, front.seq, page.position), page_data)

    def fronts(self, chain: int, seqs: Sequence[int]) -> Steps[list[Checkpoint]]:
        """Those of several checkpoints, asked for together; they are not kept."""
        kept = [self._kept_front(chain, seq) for seq in seqs]
        places = zip(seqs, kept, strict=True)
        missing = [read_checkpoint(chain, seq) for seq, front in places if front is None]
        outcomes: Sequence[Checkpoint | LogstoreError] = yield Gather(missing)
        others = iter(outcomes)
        fronts = []
        for kept_front in kept:
            front = next(others) if kept_front is None else kept_front
            if isinstance(front, LogstoreError):
                raise front
            fronts.append(front)
        return fronts

    def page(self, checkpoint: Checkpoint, page: IndexPage) -> Steps[bytes]:
        place = _CachePlace(checkpoint.epoch, checkpoint.seq, page.position)
        kept = self._kept.get(place)
        if isinstance(kept, bytes):
            self._kept.move_to_end(place)
            return kept
        return (yield from self._read_with_neighbours(checkpoint, page))

    def warm(self, wanted: Iterable[tuple[Checkpoint, IndexPage]]) -> Steps[None]:
        """Read those pages that are not kept, together, each with its neighbours."""
        near: dict[_CachePlace, tuple[Checkpoint, IndexPage]] = {}
        for checkpoint, page in wanted:
            if _CachePlace(checkpoint.epoch, checkpoint.seq, page.position) not in self._kept:
                read = _CachePlace(checkpoint.epoch, checkpoint.seq, self.read_of(page))
                near.setdefault(read, (checkpoint, page))
        reads = [_Neighbours.of(*one) for one in near.values()]
        outcomes: Sequence[bytes | LogstoreError] = yield Gather([one.read() for one in reads])
        for one, data in zip(reads, outcomes, strict=True):
            if isinstance(data, LogstoreError):
                raise data
            for position, page_bytes in one.whole_pages(data):
                self._keep(
                    _CachePlace(one.checkpoint.epoch, one.checkpoint.seq, position), page_bytes
                )

    def forget_below(self, chain: int, first: int) -> None:
        """Drop what is kept of checkpoints of `chain` before its first one."""
        if first <= self._first.get(chain, 0):
            return
        self._first[chain] = first
        gone = [place for place in self._kept if place.chain == chain and place.seq < first]
        for place in gone:
            self._drop(place)

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
            self._keep(_CachePlace(checkpoint.epoch, checkpoint.seq, position), data)
            wanted = data if position == page.position else wanted
        if wanted is None:
            key = checkpoint_key(checkpoint.epoch, checkpoint.seq)
            raise Corrupt(f"index page fails its checksum: key={key} position={page.position}")
        return wanted

    def _kept_front(self, chain: int, seq: int) -> Checkpoint | None:
        place = _CachePlace(chain, seq, _FRONT)
        front = self._kept.get(place)
        if not isinstance(front, Checkpoint):
            return None
        self._kept.move_to_end(place)
        return front

    def _keep(self, place: _CachePlace, front_or_page: Checkpoint | bytes) -> None:
        if place in self._kept:
            return
        self._kept[place] = front_or_page
        self.byte_count += _size(front_or_page)
        while self.byte_count > self._bytes_max and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, place: _CachePlace) -> None:
        self.byte_count -= _size(self._kept.pop(place))


def _size(front_or_page: Checkpoint | bytes) -> int:
    """Tables of a front stay bytes, so it needs about what it has in the store."""
    if isinstance(front_or_page, Checkpoint):
        return front_or_page.front_bytes
    return len(front_or_page)


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
