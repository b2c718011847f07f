"""The order in which one reader takes pieces of chains: each partition's offsets rise. Pure.

A segment holds batches of many partitions, so chains are read one after the other, every wanted
piece of them at once. A chain whose pieces all come after what has been read goes first. Where
partitions moved to and fro between brokers no chain may be such; then one chain is read in part,
and again later:

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
from logstore.reading.tasks import SeqRange


def in_order(pieces: Iterable[SegmentRange]) -> list[SeqRange]:
    """Runs that hold every piece once, those of each partition by offset."""
    waiting: dict[TopicPartition, deque[SegmentRange]] = {}
    for piece in sorted(pieces, key=attrgetter("start")):
        waiting.setdefault(TopicPartition(piece.topic_id, piece.partition), deque()).append(piece)
    runs: list[SeqRange] = []
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
        runs += _runs(chain, sorted(taken, key=attrgetter("first_seq")))
    return runs


def seq_ranges(pieces: Sequence[SegmentRange]) -> Iterator[tuple[int, int]]:
    """Seqs that pieces of one chain, sorted by first seq, need: [first, last] without holes."""
    first, last = pieces[0].first_seq, pieces[0].last_seq
    for piece in pieces[1:]:
        if piece.first_seq > last + 1:
            yield first, last
            first = piece.first_seq
        last = max(last, piece.last_seq)
    yield first, last


def _leading(queue: deque[SegmentRange]) -> list[SegmentRange]:
    """The next pieces of a partition, as far as they lie in one chain."""
    return list(takewhile(lambda piece: piece.chain == queue[0].chain, queue))


def _next_chain(
    waiting: Iterable[Iterable[SegmentRange]], ready: Iterable[Sequence[SegmentRange]]
) -> int:
    """The chain with the fewest pieces that must wait for another chain; the oldest of those."""
    left = Counter(piece.chain for queue in waiting for piece in queue)
    now = Counter(piece.chain for leading in ready for piece in leading)
    return min(now, key=lambda chain: (left[chain] - now[chain], chain))


def _runs(chain: int, pieces: Sequence[SegmentRange]) -> Iterator[SeqRange]:
    for first, last in seq_ranges(pieces):
        inside = tuple(piece for piece in pieces if first <= piece.first_seq <= last)
        yield SeqRange(chain, first, last, inside)
