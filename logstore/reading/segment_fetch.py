"""Fetch the segments that a plan names, and yield the batches that it wants from them.

Needs the store alone: the front of a segment says where each of its batches lies.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from logstore.errors import Corrupt, NotFound, Refused
from logstore.formats.keys import segment_key
from logstore.formats.segment import (
    Entry,
    EntryKind,
    decode_front,
)
from logstore.formats.segment_ranges import SegmentRange
from logstore.ports.clock import blocking_sleep_s
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.segment_gone import SegmentGone
from logstore.retry import RetryDelays, retry

PREFETCH_SEGMENTS = 2
GET_ATTEMPTS_MAX = 8
_GETS = RetryDelays(attempts_max=GET_ATTEMPTS_MAX)  # some six seconds


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

    Each segment is fetched once, the next while one is being read. Raises `SegmentGone` when one is
    not there: it was moved or deleted concurrently, and the offsets must be resolved again.
    """
    wanted = {(p.topic_id, p.partition, p.leader_epoch): p for p in segment_ranges}
    with ThreadPoolExecutor(PREFETCH_SEGMENTS, thread_name_prefix="logstore-fetch") as threads:
        ahead: list[tuple[int, Future[bytes]]] = []
        for seq in range(first_seq, last_seq + 1):
            key = segment_key(chain, seq)
            ahead.append((seq, threads.submit(_get, store, key, sleep_s)))
            if len(ahead) > PREFETCH_SEGMENTS:
                yield from _batches_of(*ahead.pop(0), chain, wanted)
        for item in ahead:
            yield from _batches_of(*item, chain, wanted)


def _get(store: BlockingObjectStore, key: str, sleep_s: Callable[[float], None]) -> bytes:
    """The whole object."""
    return retry(partial(store.get, key), _GETS, random.Random(), sleep_s=sleep_s)


def _batches_of(
    seq: int,
    fetched: Future[bytes],
    chain: int,
    wanted: Mapping[tuple[bytes, int, int], SegmentRange],
) -> Iterator[FoundBatch]:
    try:
        data = fetched.result()
    except NotFound as error:
        raise SegmentGone(chain, seq) from error
    index = decode_front(data)
    if (index.header.epoch, index.header.seq) != (chain, seq):
        raise Corrupt(f"segment does not match its key: chain={chain} seq={seq}")
    body = memoryview(data)[index.header.body_at :]
    if len(body) != index.header.body_bytes:
        raise Corrupt(
            f"segment cut short: chain={chain} seq={seq} bytes={len(data)} "
            f"need={index.header.body_at + index.header.body_bytes}"
        )
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
            batch = body[entry.position : entry.position + entry.length]
            stamped = (int.from_bytes(batch[:8]), int.from_bytes(batch[12:16], signed=True))
            if stamped != (entry.base_offset, entry.leader_epoch):
                # Outside the batch's own checksum, inside the index's.
                raise Corrupt(
                    f"batch does not match its index entry: chain={chain} seq={seq} "
                    f"partition={entry.partition} offset={entry.base_offset}"
                )
            yield FoundBatch(segments, seq, entry, batch)
