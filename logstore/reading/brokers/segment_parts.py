"""Which byte ranges of the segments of a chain hold a topic, so that its readers fetch no others.

    body        ┤ others ├ orders-0 ├ orders-1 ┤ others ├ orders-2, of an older writer ┤ others ┤
    parts                └─────────────────────┘        └──────────────────────────────┘

A part is that of all partitions of a topic, since consumers read several of them: the next one
finds the bytes in the cache. Writers order a body by topic, so there is one part for each segment.
Where the topic is almost all of a segment, or scattered over it, or the segment is small, the
segment is fetched whole. A checkpoint says where the batches of its window lie; of what came after
the last checkpoint of a chain segments are fetched whole.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from operator import attrgetter
from typing import NamedTuple

from logstore.errors import NotFound
from logstore.formats.chain_state import EpochKey, SegmentSpan
from logstore.formats.checkpoint import Checkpoint, IndexPage
from logstore.formats.index_rows import ROW, IndexRow, Rows
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.partitions.lookup import FoundRows
from logstore.protocol.steps import Steps, sliced
from logstore.reading.planning.batch_places import GAP_BYTES_MAX, WHOLE_SHARE
from logstore.reading.planning.layout import is_dense
from logstore.runners.step_runner import StepRunner
from logstore.slices import Slices

WHOLE_BYTES_MAX = 256 * 1024
"""So large a segment is fetched in the time of its smallest part, and for all topics at once."""

PARTS_MAX = 4
"""Of a segment: more requests cost more than the bytes between them."""

PAGES_MAX = 2_048
ROWS_MAX = 100_000
"""Of a topic in the window of one checkpoint: beyond, its segments are fetched whole."""

ROWS_IN_SLICE = 2_000
"""One or two milliseconds."""

PAGES_TOGETHER = 256
LAYOUTS_KEPT = 128


class SegmentPart(NamedTuple):
    """The bytes [start, end) of a segment's body, one request; with `end` 0 all of the segment.

    `body_at` is where the body begins in the object; 0 of a whole segment, whose header says so.
    """

    epoch: int
    seq: int
    start: int = 0
    end: int = 0
    body_at: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.end

    @property
    def whole(self) -> "SegmentPart":
        return SegmentPart(self.epoch, self.seq)


@dataclass(frozen=True, slots=True)
class TopicParts:
    """How segments of `chain` are fetched for a topic: whole where nothing else is said."""

    chain: int
    from_seq: int = 0
    spans: Sequence[SegmentSpan] = ()
    by_seq: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """Ranges of the bodies, in order."""

    def part(self, seq: int, start: int, end: int) -> SegmentPart:
        """The one that holds bytes [`start`, `end`) of the body of segment `seq`."""
        for part_start, part_end in self.by_seq.get(seq, ()):
            if part_start <= start and end <= part_end:
                body_at = self.spans[seq - self.from_seq].body_at
                return SegmentPart(self.chain, seq, part_start, part_end, body_at)
        return SegmentPart(self.chain, seq)

    def size_of(self, part: SegmentPart) -> int | None:
        """Bytes of the object that the request gets; None if it is not known."""
        if not part.is_whole:
            return part.end - part.start
        number = part.seq - self.from_seq
        return self.spans[number].size_bytes if 0 <= number < len(self.spans) else None


def topic_parts(
    front: Checkpoint, pages: Sequence[Rows], whole_bytes_max: int
) -> Slices[TopicParts]:
    """Of the topic whose index rows, of all its partitions, are `pages`."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    row_number = 0
    for rows in pages:
        for seq, at, length, _, place, *_ in ROW.iter_unpack(rows):
            row_number += 1
            if row_number % ROWS_IN_SLICE == 0:
                yield
            if place or not front.from_seq <= seq < front.seq:
                continue
            mine = ranges.setdefault(seq, [])
            if mine and mine[-1][1] == at:
                mine[-1] = (mine[-1][0], at + length)
            else:
                mine.append((at, at + length))
    spans = list(front.spans)
    by_seq = {}
    for seq, some in ranges.items():
        size_bytes = spans[seq - front.from_seq].size_bytes
        parts = _joined(sorted(some))
        wanted_bytes = sum(end - start for start, end in parts)
        if (
            size_bytes > whole_bytes_max
            and len(parts) <= PARTS_MAX
            and wanted_bytes < WHOLE_SHARE * size_bytes
        ):
            by_seq[seq] = tuple(parts)
    return TopicParts(front.epoch, front.from_seq, spans, by_seq)


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those with little between them as one."""
    parts: list[tuple[int, int]] = []
    for start, end in ranges:
        if parts and start - parts[-1][1] <= GAP_BYTES_MAX:
            parts[-1] = (parts[-1][0], max(parts[-1][1], end))
        else:
            parts.append((start, end))
    return parts


class SegmentParts:
    """Finds the parts for topics; those of recent look-ups are kept."""

    def __init__(
        self, runner: StepRunner, index: IndexCache, *, whole_bytes_max: int = WHOLE_BYTES_MAX
    ) -> None:
        self._runner = runner
        self._index = index
        self._whole_bytes_max = whole_bytes_max
        self._layouts: OrderedDict[tuple[int, int, bytes], TopicParts] = OrderedDict()

    def one_batch(self, located: FoundRows, row: IndexRow) -> SegmentPart:
        """For a reader of the batch of `row` alone, one of the rows of `located`."""
        front = located.front
        if front is None or not front.from_seq <= row.seq < front.seq:
            return SegmentPart(located.chain, row.seq)
        span, end = front.spans[row.seq - front.from_seq], row.position + row.length
        if span.size_bytes <= self._whole_bytes_max:
            return SegmentPart(located.chain, row.seq)
        return SegmentPart(located.chain, row.seq, row.position, end, span.body_at)

    async def of(self, located: FoundRows) -> TopicParts:
        """For the topic of `located`, in the segments of its rows. Raises as the store does."""
        front = located.front
        if front is None:
            return TopicParts(located.chain)
        name = (front.epoch, front.seq, located.key.topic_id)
        layout = self._layouts.get(name)
        if layout is None:
            layout = self._layouts[name] = await self._look_up(front, located.key.topic_id)
            if len(self._layouts) > LAYOUTS_KEPT:
                self._layouts.popitem(last=False)
        else:
            self._layouts.move_to_end(name)
        return layout

    async def _look_up(self, front: Checkpoint, topic_id: bytes) -> TopicParts:
        spans = list(front.spans)
        whole = TopicParts(front.epoch, front.from_seq, spans)
        if all(span.size_bytes <= self._whole_bytes_max for span in spans):
            return whole
        pages = _pages_of_topic(front, topic_id)
        rows = sum(page.row_count for page in pages)
        if len(pages) > PAGES_MAX or rows > ROWS_MAX or is_dense(front, rows):
            return whole
        found = await self._runner.run(_rows_of(self._index, front, pages))
        if found is None:
            return whole
        slices = topic_parts(front, found, self._whole_bytes_max)
        return await self._runner.run(sliced(slices))


def _pages_of_topic(front: Checkpoint, topic_id: bytes) -> list[IndexPage]:
    """One more than `PAGES_MAX` at most."""
    first = bisect_left(front.pages, EpochKey(topic_id, 0, 0), key=attrgetter("key"))
    following = (front.pages[number] for number in range(first, len(front.pages)))
    mine = takewhile(lambda page: page.topic_id == topic_id, following)
    return list(islice(mine, PAGES_MAX + 1))


def _rows_of(
    index: IndexCache, front: Checkpoint, pages: Sequence[IndexPage]
) -> Steps[list[Rows] | None]:
    """None: they are deleted, as what lies below a trim point is."""
    rows: list[Rows] = []
    try:
        for at in range(0, len(pages), PAGES_TOGETHER):
            some = pages[at : at + PAGES_TOGETHER]
            yield from index.warm([(front, page) for page in some])
            for page in some:
                rows.append((yield from index.page(front, page)))
    except NotFound:
        return None
    return rows
