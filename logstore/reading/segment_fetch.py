"""The batches that a plan wants from segments, in the order of their chain.

Needs the store alone: the front of a segment says where each of its batches lies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from logstore.errors import Corrupt, Refused
from logstore.formats.segment import (
    Entry,
    EntryKind,
    Index,
    decode_front,
)
from logstore.formats.segment_ranges import SegmentRange
from logstore.ports.clock import blocking_sleep_s
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.task_segments import TaskSegments, places_of
from logstore.reading.tasks import SeqRange

COPIED_SHARE = 2
"""Where less than half of a segment is wanted, that is copied, rather than keep all of it."""

_Wanted = Mapping[tuple[bytes, int, int], SegmentRange]
"""By topic id, partition and leader epoch."""


class FoundBatch(NamedTuple):
    """One stored batch that holds wanted offsets [start, end); the batch may hold more."""

    segments: SegmentRange
    seq: int
    entry: Entry
    data: memoryview


def read_batches(
    store: BlockingObjectStore,
    chain: int,
    first_seq: int,
    last_seq: int,
    segment_ranges: Sequence[SegmentRange],
    *,
    sleep_s: Callable[[float], None] = blocking_sleep_s,
) -> Iterator[FoundBatch]:
    """The batches of `segment_ranges` in segments [first seq, last seq] of `chain`, in chain order.

    Each segment is fetched once, the next ones while one is being read. Raises `SegmentGone` when
    one is not there: it was moved or deleted concurrently, and the offsets must be resolved again.
    """
    seq_range = SeqRange(chain, first_seq, last_seq, tuple(segment_ranges))
    with TaskSegments(store, places_of([seq_range]), sleep_s=sleep_s) as segments:
        yield from batches_of(segments, seq_range)


def batches_of(segments: TaskSegments, seq_range: SeqRange) -> Iterator[FoundBatch]:
    """As `read_batches`, of segments that are fetched ahead for a whole task."""
    wanted = {(p.topic_id, p.partition, p.leader_epoch): p for p in seq_range.segment_ranges}
    for seq in range(seq_range.first_seq, seq_range.last_seq + 1):
        yield from _batches_in(segments.get(seq_range.chain, seq), seq_range.chain, seq, wanted)


def _batches_in(data: bytes, chain: int, seq: int, wanted: _Wanted) -> Iterator[FoundBatch]:
    index = decode_front(data)
    if (index.header.epoch, index.header.seq) != (chain, seq):
        raise Corrupt(f"segment does not match its key: chain={chain} seq={seq}")
    body = memoryview(data)[index.header.body_at :]
    if len(body) != index.header.body_bytes:
        raise Corrupt(
            f"segment cut short: chain={chain} seq={seq} bytes={len(data)} "
            f"need={index.header.body_at + index.header.body_bytes}"
        )
    found = list(_wanted_entries(index, chain, seq, wanted))
    wanted_bytes = sum(entry.length for _, entry in found)
    for segments, entry in found:
        batch = body[entry.position : entry.position + entry.length]
        stamped = (int.from_bytes(batch[:8]), int.from_bytes(batch[12:16], signed=True))
        if stamped != (entry.base_offset, entry.leader_epoch):
            # Outside the batch's own checksum, inside the index's.
            raise Corrupt(
                f"batch does not match its index entry: chain={chain} seq={seq} "
                f"partition={entry.partition} offset={entry.base_offset}"
            )
        if wanted_bytes * COPIED_SHARE < len(data):
            batch = memoryview(bytes(batch))
        yield FoundBatch(segments, seq, entry, batch)


def _wanted_entries(
    index: Index, chain: int, seq: int, wanted: _Wanted
) -> Iterator[tuple[SegmentRange, Entry]]:
    for entry in index.entries:
        if entry.kind == EntryKind.ADOPTED:
            raise Refused(
                f"adopted batches are of a newer version of logstore: chain={chain} seq={seq}; "
                "upgrade"
            )
        segments = wanted.get((entry.topic_id, entry.partition, entry.leader_epoch))
        if entry.kind != EntryKind.BATCH or segments is None:
            continue
        if entry.base_offset < segments.end and entry.last_offset >= segments.start:
            yield segments, entry
