"""The order in which one reader takes segment ranges of chains: each partition's offsets rise.
Pure.

A segment holds batches of many partitions, so chains are read one after the other, every wanted
segment range of them at once. A chain whose segment ranges all come after what has been read goes
first. Where partitions moved to and fro between brokers no chain may be such; then one chain is
read in part, and again later:

    partition 0:  chain 5, then chain 3        chain 5, only what partition 0 has there
    partition 1:  chain 3, then chain 5   →    chain 3, all
                                               chain 5, what partition 1 has there
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from operator import attrgetter

from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.tasks import SeqRange


def in_order(segment_ranges: Iterable[SegmentRange]) -> list[SeqRange]:
    """Runs that hold every segment range once, those of each partition by offset."""
    waiting: dict[TopicPartition, deque[SegmentRange]] = {}
    for segments in sorted(segment_ranges, key=attrgetter("offsets.start")):
        waiting.setdefault(segments.offsets.partition, deque()).append(segments)
    seq_ranges: list[SeqRange] = []
    while waiting:
        ready = {key: _leading(queue) for key, queue in waiting.items()}
        chain = _next_chain(waiting.values(), ready.values())
        taken: list[SegmentRange] = []
        for key, leading in ready.items():
            if leading[0].chain == chain:
                taken += leading
                for _ in leading:
                    waiting[key].popleft()
                if not waiting[key]:
                    del waiting[key]
        seq_ranges += _seq_ranges(chain, sorted(taken, key=attrgetter("first_seq")))
    return seq_ranges


def seq_ranges(segment_ranges: Sequence[SegmentRange]) -> Iterator[tuple[int, int]]:
    """Seqs that segment ranges of one chain, sorted by first seq, need: [first, last] without
    holes.
    """
    first, last = segment_ranges[0].first_seq, segment_ranges[0].last_seq
    for segments in segment_ranges[1:]:
        if segments.first_seq > last + 1:
            yield first, last
            first = segments.first_seq
        last = max(last, segments.last_seq)
    yield first, last


def _leading(queue: deque[SegmentRange]) -> list[SegmentRange]:
    """The next segment ranges of a partition, as far as they lie in one chain."""
    return list(takewhile(lambda segments: segments.chain == queue[0].chain, queue))


def _next_chain(
    waiting: Iterable[Iterable[SegmentRange]], ready: Iterable[Sequence[SegmentRange]]
) -> int:
    """The chain with the fewest segment ranges that must wait for another chain; the oldest of
    those.
    """
    left = Counter(segments.chain for queue in waiting for segments in queue)
    now = Counter(segments.chain for leading in ready for segments in leading)
    return min(now, key=lambda chain: (left[chain] - now[chain], chain))


def _seq_ranges(chain: int, segment_ranges: Sequence[SegmentRange]) -> Iterator[SeqRange]:
    for first, last in seq_ranges(segment_ranges):
        inside = tuple(
            segments for segments in segment_ranges if first <= segments.first_seq <= last
        )
        yield SeqRange(chain, first, last, inside)
