"""Plans reads of a chain's segments for given segment ranges, by their index. Pure.

    index rows of the ranges, window by window   ─▶ batches by segment
    spans: where bodies begin, object sizes      ─▶ bytes in the object, requests, wanted bytes

A window is what one checkpoint sums up, or what came after the last one. Where almost all of a
window is wanted its rows are not read, and its segments are fetched whole; so are those of a
segment range of which not every offset was found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.formats.chain_state import ChainState, EpochKey, SegmentSpan
from logstore.formats.checkpoint import Checkpoint, IndexPage
from logstore.formats.index_rows import ROW, ROW_BYTES, Rows, first_row_for_offset
from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.planning.batch_places import BatchPlaces, PlacedBatch, is_whole, joined
from logstore.reading.planning.sequence import seq_ranges

ROWS_MAX = 2_000_000
"""Of one layout: three seconds of a driver. Segments beyond are fetched whole."""

DENSE_SHARE = 63 / 64
"""Of the rows of a window: the rest are commits of consumers and the like."""

FEW_RANGES = 64


class SegmentRead(NamedTuple):
    """`wanted_bytes` of batches, or of the object where its rows were not read; `request_count` is
    0 where nothing of a segment is wanted."""

    wanted_bytes: int
    request_count: int


@dataclass(frozen=True, slots=True)
class ChainLayout:
    """For each segment of the segment ranges, in order, how it is read."""

    reads: Mapping[int, SegmentRead]
    places: BatchPlaces


def wanted_pages(
    front: Checkpoint, segment_ranges: Sequence[SegmentRange]
) -> list[tuple[SegmentRange, IndexPage]]:
    """Pages of a checkpoint that hold rows of the segment ranges; in order for each of them."""
    if len(segment_ranges) <= FEW_RANGES:
        return [
            (segments, page)
            for segments in segment_ranges
            for page in front.pages_of(_key(segments))
            if _overlaps(segments, page)
        ]
    by_key: dict[EpochKey, list[SegmentRange]] = {}
    for segments in segment_ranges:
        by_key.setdefault(_key(segments), []).append(segments)
    return [
        (segments, page)
        for page in front.pages
        for segments in by_key.get(page.key, ())
        if _overlaps(segments, page)
    ]


def _overlaps(segments: SegmentRange, page: IndexPage) -> bool:
    return page.first_offset < segments.offsets.end and page.end_offset > segments.offsets.start


def is_dense(front: Checkpoint, wanted_rows: int) -> bool:
    """Whether so many rows are almost all that a checkpoint has."""
    if not front.pages:
        return False
    last = front.pages[-1]
    row_count = (last.position + last.byte_count) // ROW_BYTES
    return wanted_rows >= DENSE_SHARE * row_count


class LayoutBuilder:
    """Windows are added in the order of their seqs."""

    def __init__(self, chain: int, segment_ranges: Sequence[SegmentRange]) -> None:
        self._chain = chain
        self._segment_ranges = sorted(segment_ranges, key=lambda one: one.first_seq)
        self._spans: dict[int, SegmentSpan] = {}
        self._batches: dict[int, list[PlacedBatch]] = {}
        self._whole: set[int] = set()
        self._reached = {segments: segments.offsets.start for segments in segment_ranges}
        self._row_count = 0

    @property
    def is_full(self) -> bool:
        """Whether rows of another window are too many."""
        return self._row_count >= ROWS_MAX

    def ranges_in(self, from_seq: int, end_seq: int) -> list[SegmentRange]:
        """Segment ranges that need segments [from seq, end seq)."""
        return [
            segments
            for segments in self._segment_ranges
            if segments.first_seq < end_seq and segments.last_seq >= from_seq
        ]

    def add_window(self, from_seq: int, spans: Sequence[SegmentSpan]) -> None:
        self._spans.update(enumerate(spans, from_seq))

    def add_whole(
        self,
        from_seq: int,
        spans: Sequence[SegmentSpan],
        pages: Sequence[tuple[SegmentRange, IndexPage]],
    ) -> None:
        """A window whose rows are not read."""
        self.add_window(from_seq, spans)
        self._whole.update(range(from_seq, from_seq + len(spans)))
        for segments, page in pages:
            if page.first_offset <= self._reached[segments]:
                self._reached[segments] = max(self._reached[segments], page.end_offset)

    def add_rows(self, segments: SegmentRange, rows: Rows) -> None:
        """Rows of its epoch range, of a window that was added."""
        key, first = _key(segments), first_row_for_offset(rows, segments.offsets.start)
        reached = self._reached[segments]
        for seq, at, length, _, place, _, base, last, *_ in ROW.iter_unpack(
            memoryview(rows)[first * ROW_BYTES :]
        ):
            if base >= segments.offsets.end:
                break
            if base > reached:
                return  # rows are missing: reading segments whole says which
            reached = last + 1
            span = self._spans.get(seq)
            if place or span is None:
                self._whole.add(seq)
            else:
                batch = PlacedBatch(key, span.body_at + at, length, base, last)
                self._batches.setdefault(seq, []).append(batch)
            self._row_count += 1
        self._reached[segments] = max(self._reached[segments], reached)

    def add_followed(self, state: ChainState) -> None:
        """Adds the objects after the last checkpoint, from a follower's state."""
        self.add_window(state.checkpoint, state.spans)
        for segments in self.ranges_in(state.checkpoint, state.next_seq):
            epoch_range = state.epoch_ranges.get(_key(segments))
            if epoch_range is not None:
                self.add_rows(segments, epoch_range.rows)

    def layout(self) -> ChainLayout:
        """Raises `Corrupt` where no window covers a segment."""
        for segments in self._segment_ranges:
            if self._reached[segments] < segments.offsets.end:
                self._whole.update(range(segments.first_seq, segments.last_seq + 1))
        reads: dict[int, SegmentRead] = {}
        exact: dict[int, list[PlacedBatch]] = {}
        sizes: dict[int, int] = {}
        for first, last in seq_ranges(self._segment_ranges):
            for seq in range(first, last + 1):
                reads[seq] = self._read(seq, exact)
                if seq not in exact:
                    sizes[seq] = self._spans[seq].size_bytes
        keys = map(_key, self._segment_ranges) if exact else ()
        return ChainLayout(reads, BatchPlaces.packed(exact, keys, sizes))

    def _read(self, seq: int, exact: dict[int, list[PlacedBatch]]) -> SegmentRead:
        span = self._spans.get(seq)
        if span is None:
            raise Corrupt(f"no checkpoint covers a segment: chain={self._chain} seq={seq}")
        if seq in self._whole:
            return SegmentRead(span.size_bytes, 1)
        batches = sorted(self._batches.get(seq, ()), key=lambda one: one.at)
        wanted_bytes = sum(one.length for one in batches)
        requests = joined(batches)
        if is_whole(requests, span.size_bytes):
            return SegmentRead(wanted_bytes, 1)
        exact[seq] = batches
        return SegmentRead(wanted_bytes, len(requests))


def _key(segments: SegmentRange) -> EpochKey:
    return EpochKey(
        segments.offsets.topic_id,
        segments.offsets.number,
        segments.leader_epoch,
    )
