"""The open segment: batches and index entries gather here until it is frozen.

The body lies in an `Arena`, a large buffer that successive segments share, so that a small segment
costs no allocation and a large one no copy. Memory that was written before is many times cheaper
than fresh memory, so arenas are reused, but never while a view of them exists: in the cache, in a
put, or in a response that is being sent. A body that is stored in another order than it came
(`body_order`) is copied into a second arena, and the first is written over by the next segment.
"""

import mmap
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from logstore.formats.body_order import BodyOrder, body_order, gather, set_positions
from logstore.formats.segment import (
    ENTRY,
    ENTRY_BYTES,
    HEADER_BYTES,
    AdoptEnd,
    Entry,
    EntryKind,
    Header,
    SegmentKind,
    StagedObject,
    encode_front,
)
from logstore.records.crc32c import crc32c

_BATCH = int(EntryKind.BATCH)
_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


@dataclass(frozen=True, slots=True)
class FrozenSegment:
    """A segment whose bytes are final, whatever the outcome of its put."""

    seq: int
    nonce: bytes
    created_ms: int
    front: bytes
    body: memoryview
    entry_count: int

    @property
    def parts(self) -> tuple[bytes, memoryview]:
        return (self.front, self.body)

    @property
    def size_bytes(self) -> int:
        return len(self.front) + len(self.body)

    @property
    def last_position(self) -> int:
        """In the object, of the bytes of its last entry."""
        at = HEADER_BYTES + (self.entry_count - 1) * ENTRY_BYTES
        entry = Entry(*ENTRY.unpack_from(self.front, at))
        return len(self.front) + entry.position


class Arena:
    """Memory that segment bodies are cut from, one after the other."""

    __slots__ = ("_memory", "_view", "used")

    def __init__(self, size_bytes: int) -> None:
        self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if _HUGE_PAGES is not None:
            self._memory.madvise(_HUGE_PAGES)  # first use costs a fifth of what small pages do
        self._view = memoryview(self._memory)
        self.used = 0

    def retire(self) -> None:
        """No further segments are cut from it; existing ones stay valid."""
        self._view.release()

    def is_free(self) -> bool:
        """Whether no view exists any more, after `retire`."""
        try:
            self._memory.resize(len(self._memory))  # refused while there is any view
        except (BufferError, SystemError, ValueError, OSError):
            return False  # or always, where the system cannot resize
        return True

    def reuse(self) -> None:
        """Begin again, once it is free."""
        self._view = memoryview(self._memory)
        self.used = 0

    @property
    def size_bytes(self) -> int:
        return len(self._memory)

    @property
    def free_bytes(self) -> int:
        return len(self._memory) - self.used

    def take(self, start: int, end: int) -> memoryview:
        return self._view[start:end]

    def take_back(self, byte_count: int) -> None:
        """The last bytes used are free again: of a segment that nothing looks at."""
        self.used -= byte_count


class ArenaPool:
    """Arenas of one size, the one retired longest ago first.

    At most `held_max` are kept while views of them exist, and `SPARE_MAX` that are free:
    the others go back to the system, or a burst would be paid for until the process ends. So do
    those that none of the last `TAKES_LOOKED_AT` takes would have needed.
    """

    SPARE_MAX = 2
    TAKES_LOOKED_AT = 8

    def __init__(self, size_bytes: int, *, held_max: int = 64) -> None:
        self._size_bytes = size_bytes
        self._retired: deque[Arena] = deque(maxlen=held_max)
        self._left_free: deque[int] = deque(maxlen=self.TAKES_LOOKED_AT)
        """How many arenas each of the last takes left free."""

    def take(self, size_bytes: int) -> Arena:
        """An empty arena of at least `size_bytes`."""
        if size_bytes > self._size_bytes:
            return Arena(size_bytes)
        free = [arena for arena in self._retired if arena.is_free()]
        for arena in (*free[:1], *free[1 + self._spare_max(len(free)) :]):
            self._retired.remove(arena)
        if not free:
            return Arena(self._size_bytes)
        free[0].reuse()
        return free[0]

    def _spare_max(self, free_count: int) -> int:
        """How many of the arenas that a take leaves free are kept."""
        left = min(max(0, free_count - 1), self.SPARE_MAX)
        self._left_free.append(left)
        if len(self._left_free) < self.TAKES_LOOKED_AT:
            return self.SPARE_MAX
        unneeded = min(self._left_free)
        if unneeded:
            self._left_free.clear()
        return left - unneeded

    def give_back(self, arena: Arena) -> None:
        arena.retire()
        if arena.size_bytes == self._size_bytes:
            self._retired.append(arena)


class SegmentBuilder:
    """Gathers one segment of one chain. `start` is where its body begins in the arena."""

    __slots__ = (
        "_arena",
        "_entries",
        "_places",
        "_view",
        "body_bytes",
        "created_ms",
        "entry_count",
        "room_bytes",
    )

    def __init__(self, arena: Arena, created_ms: int, body_bytes_max: int | None = None) -> None:
        self._arena = arena
        self._view = arena.take(arena.used, arena.used + arena.free_bytes)
        self._entries = bytearray()
        self._places: list[StagedObject] = []
        self.entry_count = 0
        self.created_ms = created_ms
        self.body_bytes = 0
        free_bytes = arena.free_bytes
        self.room_bytes = free_bytes if body_bytes_max is None else min(body_bytes_max, free_bytes)
        """Bytes that may still be added."""

    def add_bytes(self, data: bytes | memoryview) -> memoryview:
        """Copy `data` to the end of the body; the answer is the copy, at `body_bytes` before."""
        at, length = self.body_bytes, len(data)
        self.body_bytes = end = at + length
        place = self._view[at:end]
        place[:] = data
        self._arena.used += length
        self.room_bytes -= length
        return place

    def add_batch_entry(
        self,
        flags: int,
        partition: int,
        topic_id: bytes,
        leader_epoch: int,
        length: int,
        position: int,
        base_offset: int,
        last_offset: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        record_count: int,
    ) -> None:
        """The index entry of a batch that `add_bytes` placed at `position` of this body."""
        self._entries += ENTRY.pack(
            _BATCH,
            flags,
            0,
            partition,
            topic_id,
            leader_epoch,
            length,
            position,
            base_offset,
            last_offset,
            producer_id,
            producer_epoch,
            base_sequence,
            max_timestamp,
            max_timestamp_offset,
            record_count,
            0,
        )
        self.entry_count += 1

    def add_state_entry(
        self,
        kind: EntryKind,
        *,
        topic_id: bytes,
        partition: int,
        leader_epoch: int,
        offset: int,
        payload: bytes,
    ) -> None:
        """A take, release or state entry; `payload` goes into the body."""
        position = self.body_bytes
        self.add_bytes(payload)
        self._entries += ENTRY.pack(
            kind,
            0,
            0,
            partition,
            topic_id,
            leader_epoch,
            len(payload),
            position,
            offset,
            offset - 1,
            -1,
            -1,
            -1,
            -1,
            -1,
            0,
            crc32c(payload),
        )
        self.entry_count += 1

    def add_adopt_end(
        self, end: AdoptEnd, *, topic_id: bytes, partition: int, leader_epoch: int
    ) -> None:
        """The entry behind batches that were copied for a sink into this segment."""
        self._entries += ENTRY.pack(*end.entry(topic_id, partition, leader_epoch))
        self.entry_count += 1

    def order(self) -> BodyOrder | None:
        """How the body is to be stored, where that is not as it came: for `move`."""
        return body_order(self._entries)

    def move(self, order: BodyOrder, arena: Arena) -> None:
        """Copy the body into `arena`, which has room for it, in the order in which it is stored.

        The last thing before `freeze`. Memory that it leaves is free for the next segment.
        """
        source, start = self._view, arena.used
        arena.used += self.body_bytes
        self._view = arena.take(start, arena.used)
        gather(self._view, source, order.pieces)
        set_positions(self._entries, order.positions)
        self._arena.take_back(self.body_bytes)
        self._arena = arena

    def freeze(
        self,
        *,
        cluster_id: bytes,
        epoch: int,
        seq: int,
        broker: int,
        nonce: bytes,
        previous_nonce: bytes,
    ) -> FrozenSegment:
        body = self._view[: self.body_bytes].toreadonly()
        header = bare_header(
            SegmentKind.DATA,
            cluster_id=cluster_id,
            epoch=epoch,
            seq=seq,
            broker=broker,
            nonce=nonce,
            previous_nonce=previous_nonce,
            created_ms=self.created_ms,
            body_bytes=len(body),
            body_crc=crc32c(body),
        )
        assert len(self._entries) == self.entry_count * ENTRY_BYTES
        front = encode_front(header, bytes(self._entries), self._places)
        return FrozenSegment(seq, nonce, self.created_ms, front, body, self.entry_count)


def bare_header(
    kind: SegmentKind,
    *,
    cluster_id: bytes,
    epoch: int,
    seq: int,
    broker: int,
    nonce: bytes,
    previous_nonce: bytes,
    created_ms: int,
    body_bytes: int = 0,
    body_crc: int = 0,
) -> Header:
    """A header whose counts are left for `encode_front` to fill in."""
    return Header(
        kind=kind,
        cluster_id=cluster_id,
        epoch=epoch,
        seq=seq,
        broker=broker,
        entry_count=0,
        nonce=nonce,
        previous_nonce=previous_nonce,
        created_ms=created_ms,
        index_bytes=0,
        place_count=0,
        body_bytes=body_bytes,
        body_crc=body_crc,
    )


def freeze_bare(header: Header) -> FrozenSegment:
    """An opening or a seal: a header and nothing else."""
    no_entries: Sequence[StagedObject] = ()
    front = encode_front(header, b"", no_entries)
    return FrozenSegment(header.seq, header.nonce, header.created_ms, front, memoryview(b""), 0)
