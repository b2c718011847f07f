"""The batches that a plan wants from segments, in the order of their chain.

Needs the store alone: the plan says where in a segment its batches lie, or the segment's front.
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
from logstore.reading.direct.task_segments import FetchPlace, TaskSegments, places_of, whole_place
from logstore.reading.planning.batch_places import BatchPlaces, joined
from logstore.reading.planning.tasks import SeqRange

COPIED_SHARE = 2
"""Where less than half of a segment is wanted, that is copied, rather than keep all of it."""

_NO_PLACES = BatchPlaces()

_Wanted = Mapping[tuple[bytes, int, int], SegmentRange]
"""By topic id, partition and leader epoch."""


class FoundBatch(NamedTuple):
    """One stored batch that holds wanted offsets [start, end); the batch may hold more."""

    segments: SegmentRange
    seq: int
    base_offset: int
    last_offset: int
    data: memoryview


def read_batches(
    store: BlockingObjectStore,
    chain: int,
    first_seq: int,
    last_seq: int,
    segment_ranges: Sequence[SegmentRange],
    *,
    places: BatchPlaces = _NO_PLACES,
    sleep_s: Callable[[float], None] = blocking_sleep_s,
) -> Iterator[FoundBatch]:
    """The batches of `segment_ranges` in segments [first seq, last seq] of `chain`, in chain order.

    Each segment is fetched once, whole or at `places`, the next ones while one is being read.
    Raises `SegmentGone` when one is not there: it was moved or deleted concurrently, and the
    offsets must be resolved again.
    """
    seq_range = SeqRange(chain, first_seq, last_seq, tuple(segment_ranges), places)
    with TaskSegments(store, places_of([seq_range]), sleep_s=sleep_s) as segments:
        yield from batches_of(segments, seq_range)


def batches_of(segments: TaskSegments, seq_range: SeqRange) -> Iterator[FoundBatch]:
    """As `read_batches`, of segments that are fetched ahead for a whole task."""
    wanted = {
        (p.offsets.topic_id, p.offsets.number, p.leader_epoch): p for p in seq_range.segment_ranges
    }
    for seq in range(seq_range.first_seq, seq_range.last_seq + 1):
        if seq_range.places.has(seq):
            yield from _placed_batches(segments, seq_range, seq, wanted)
            continue
        data = segments.get(whole_place(seq_range, seq))
        yield from _batches_in(data, seq_range.chain, seq, wanted)


def _placed_batches(
    segments: TaskSegments, seq_range: SeqRange, seq: int, wanted: _Wanted
) -> Iterator[FoundBatch]:
    """Batches of a segment of which the plan knows where they lie."""
    chain = seq_range.chain
    for request in joined(seq_range.places.of(seq)):
        mine = [
            (into, one)
            for one in request.batches
            if (into := wanted.get(one.key)) is not None
            and one.base_offset < into.offsets.end
            and one.last_offset >= into.offsets.start
        ]
        if not mine:
            continue
        data = memoryview(segments.get(FetchPlace(chain, seq, request.start, request.end)))
        if len(data) != request.end - request.start:
            raise Corrupt(
                f"segment cut short: chain={chain} seq={seq} need={request.end} "
                f"bytes={request.start + len(data)}"
            )
        is_copied = sum(one.length for _, one in mine) * COPIED_SHARE < len(data)
        for into, one in mine:
            begin = one.at - request.start
            batch = data[begin : begin + one.length]
            _check_stamps(batch, chain, seq, into, one.base_offset)
            batch = memoryview(bytes(batch)) if is_copied else batch
            yield FoundBatch(into, seq, one.base_offset, one.last_offset, batch)


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
    entries = list(_wanted_entries(index, chain, seq, wanted))
    wanted_bytes = sum(entry.length for _, entry in entries)
    for segments, entry in entries:
        batch = body[entry.position : entry.position + entry.length]
        _check_stamps(batch, chain, seq, segments, entry.base_offset)
        if wanted_bytes * COPIED_SHARE < len(data):
            batch = memoryview(bytes(batch))
        yield FoundBatch(segments, seq, entry.base_offset, entry.last_offset, batch)


def _check_stamps(
    batch: memoryview, chain: int, seq: int, segments: SegmentRange, base_offset: int
) -> None:
    """They are outside the batch's own checksum, inside the index's."""
    stamped = (int.from_bytes(batch[:8]), int.from_bytes(batch[12:16], signed=True))
    if stamped != (base_offset, segments.leader_epoch):
        raise Corrupt(
            f"batch does not match its index entry: chain={chain} seq={seq} "
            f"partition={segments.offsets.number} offset={base_offset}"
        )


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
        if entry.base_offset < segments.offsets.end and entry.last_offset >= segments.offsets.start:
            yield segments, entry
