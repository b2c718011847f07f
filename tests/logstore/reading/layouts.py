"""Layouts of segments of given sizes that are all wanted whole."""

from collections.abc import Callable, Sequence

from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.planning.batch_places import BatchPlaces
from logstore.reading.planning.layout import ChainLayout, SegmentRead
from logstore.reading.planning.sequence import seq_ranges
from logstore.reading.planning.task_plan import LayoutOf


def whole_segments(size_of: Callable[[int, int], int]) -> LayoutOf:
    """`size_of`: (chain, seq) → bytes."""

    def layout_of(chain: int, segment_ranges: Sequence[SegmentRange]) -> ChainLayout:
        seqs = [seq for first, last in seq_ranges(segment_ranges) for seq in range(first, last + 1)]
        reads = {seq: SegmentRead(size_of(chain, seq), 1) for seq in seqs}
        return ChainLayout(reads, BatchPlaces())

    return layout_of
