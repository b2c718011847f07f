"""Batches of a seq range in chain order; where a segment is gone, the rest of the seq range is
asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.direct.segment_fetch import FoundBatch
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.tasks import SeqRange

_Moved = TypeVar("_Moved")

Resolve = Callable[
    [SeqRange, SegmentGone, Mapping[SegmentRange, int]], tuple[Sequence[_Moved], SeqRange | None]
]
"""(run, what is gone, next offset by segment range) → what has moved, and the seq range that is
left, if any.
"""


def seq_range_batches(
    seq_range: SeqRange,
    read: Callable[[SeqRange], Iterator[FoundBatch]],
    resolve: Resolve[_Moved] | None,
) -> Iterator[FoundBatch | _Moved]:
    """What `read` yields of `seq_range`. In place of what has moved since it was planned:
    `resolve`'s.

    Raises `SegmentGone` without `resolve`, and what both of them do.
    """
    reached: dict[SegmentRange, int] = {}
    rest: SeqRange | None = seq_range
    while rest is not None:
        try:
            for batch in read(rest):
                reached[batch.segments] = batch.last_offset + 1
                yield batch
            return
        except SegmentGone as gone:
            if resolve is None:
                raise
            moved, rest = resolve(rest, gone, reached)
            yield from moved
