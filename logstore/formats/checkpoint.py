"""Bytes of a checkpoint, formats 1 and 2: what a chain held below a seq, summed up since the
checkpoint before.

    size  field (big-endian)
          header
       4  magic             b"LGCP"
       2  format            1, or 2 if the chain says of any partition what was deleted
       2  reserved
      16  cluster id
       8  epoch
       8  seq               covers the segments below it
       8  from seq          the checkpoint before, 0 if none: rows and spans cover [from seq, seq)
       4  broker
      16  last nonce        of segment seq - 1
       8  created ms        of segment seq - 1: a checkpoint's content is a function of its chain
       4  page count
       4  earlier count
       4  epoch range count
       4  place count
       8  bytes of the front: all up to the states
       8  bytes of the states
       4  deleted count     format 2 alone
       4  CRC32C            of the front without this field
          front, in this order
          pages             64 bytes each, by topic id, partition, leader epoch, offset
          earlier           8 bytes each: seqs of the checkpoints before this one, but those cut
          epoch ranges      76 bytes each: all of the chain, ended ones too, but those forgotten
          spans             12 bytes each, one a segment: body at u32, object size u64
          places            length u16, nonce 16, key
          deleted           28 bytes each, format 2 alone: topic id, partition, and the offset below
                            which its records were deleted, so that epoch ranges were forgotten
          after the front: the states (formats.partition_state), then the pages (formats.index_rows)

A reader takes the front with one or two ranged reads, then single pages as it needs them. Pure.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from logstore.errors import Corrupt
from logstore.formats.chain_state import (
    ChainState,
    EpochKey,
    EpochRange,
    SegmentSpan,
)
from logstore.formats.checkpoint_header import (
    CRC,
    DELETED,
    EPOCH_RANGE,
    PAGE,
    SEQ,
    SPAN,
    decode_checkpoint_header,
    encode_checkpoint_header,
)
from logstore.formats.index_rows import ROW_BYTES, first_row_for_seq, row_at, row_count
from logstore.formats.packed_lines import PackedLines, PackedMapping
from logstore.formats.partition_state import (
    Expired,
    ExpiredSink,
    decode_state_in_slices,
    encode_state_in_slices,
)
from logstore.formats.segment import PLACE, StagedObject
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.objects import Buffer
from logstore.records.crc32c import SLICE_BYTES, crc32c, crc32c_in_slices
from logstore.slices import Slices, finish

PAGE_ROWS_MAX = 4096
SLICE_EPOCH_RANGES = 512
SLICE_SEQS = 65_536
SLICE_DELETED = 4_096
"""Each some two milliseconds of work."""


class IndexPage(NamedTuple):
    """A run of index rows of one epoch range; `position` is from the start of the pages."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    row_count: int
    crc: int
    position: int
    first_offset: int
    end_offset: int
    running_max: int

    @property
    def key(self) -> EpochKey:
        return EpochKey(self.topic_id, self.partition, self.leader_epoch)

    @property
    def byte_count(self) -> int:
        return self.row_count * ROW_BYTES


class EpochRangeSummary(NamedTuple):
    """An epoch range as a checkpoint holds it; `state_position` is from the start of the states."""

    start: int
    end: int
    released: bool
    max_timestamp: int
    max_timestamp_offset: int
    state_position: int
    state_bytes: int
    state_crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The front of a checkpoint; its tables are decoded a line at a time, when asked for."""

    cluster_id: bytes
    epoch: int
    seq: int
    from_seq: int
    broker: int
    last_nonce: bytes
    created_ms: int
    pages: Sequence[IndexPage]
    earlier: Sequence[int]
    epoch_ranges: Mapping[EpochKey, EpochRangeSummary]
    spans: Sequence[SegmentSpan]
    places: Sequence[StagedObject]
    deleted_below: Mapping[TopicPartition, int]
    front_bytes: int
    states_bytes: int

    @property
    def pages_at(self) -> int:
        return self.front_bytes + self.states_bytes

    def pages_of(self, key: EpochKey) -> Iterator[IndexPage]:
        first = bisect_left(self.pages, key, key=attrgetter("key"))
        pages = (self.pages[number] for number in range(first, len(self.pages)))
        return takewhile(lambda page: page.key == key, pages)

    def pages_near(self, page: IndexPage, reach_bytes: int) -> Sequence[IndexPage]:
        """`page` and those that begin in the same `reach_bytes` of the pages, cut evenly."""
        begin = page.position // reach_bytes * reach_bytes
        by_position = attrgetter("position")
        first = bisect_left(self.pages, begin, key=by_position)
        end = bisect_left(self.pages, begin + reach_bytes, lo=first, key=by_position)
        return self.pages[first:end]


class EncodedCheckpoint(NamedTuple):
    """The bytes of a checkpoint in parts; producers and sinks that it leaves out, being expired."""

    parts: Sequence[Buffer]
    expired: Sequence[tuple[EpochKey, Sequence[Expired | ExpiredSink]]]


def encode_checkpoint(chain: ChainState) -> bytes:
    """The checkpoint at `chain.next_seq`, going on from `chain.checkpoint`.

    Producers idle for a day of chain time, and sinks for 30, are left out: expiry is part of this
    function, so that a live leader and a replay of its chain agree. They are forgotten in `chain`,
    too.
    """
    encoded = finish(encode_in_slices(chain))
    forget_expired(chain, encoded)
    return b"".join(encoded.parts)


def forget_expired(chain: ChainState, encoded: EncodedCheckpoint) -> None:
    """Drop from `chain` the producers and sinks that the checkpoint left out.

    `chain` may have grown since.
    """
    for key, expired in encoded.expired:
        epoch_range = chain.epoch_ranges.get(key)
        if epoch_range is not None:
            epoch_range.state.drop(expired)


def encode_in_slices(chain: ChainState) -> Slices[EncodedCheckpoint]:
    """The checkpoint at `chain.next_seq`.

    `chain` must not change until it ends (`frozen_window`).
    """
    epoch_ranges = _EpochRanges(chain.created_ms)
    for number, key in enumerate(sorted(chain.epoch_ranges), 1):
        yield from epoch_ranges.add(key, chain.epoch_ranges[key])
        if number % SLICE_EPOCH_RANGES == 0:
            yield
    tables = [bytes(epoch_ranges.page_table)]
    for at in range(0, len(chain.checkpoints), SLICE_SEQS):
        if at:
            yield
        tables.append(_packed_seqs(chain.checkpoints[at : at + SLICE_SEQS]))
    tables.append(bytes(epoch_ranges.epoch_range_table))
    tables.append(b"".join(SPAN.pack(*span) for span in chain.spans))
    tables += [PLACE.pack(len(p.key), p.nonce) + p.key.encode() for p in chain.places]
    tables.append((yield from _packed_deleted(chain.deleted_below)))
    header = encode_checkpoint_header(
        chain,
        pages=epoch_ranges.page_count,
        tables_bytes=sum(map(len, tables)),
        states_bytes=epoch_ranges.states_bytes,
    )
    crc = crc32c(header)
    for table in tables:
        crc = crc32c(table, crc)
    parts: list[Buffer] = [
        header,
        CRC.pack(crc),
        *tables,
        *epoch_ranges.states,
        *epoch_ranges.pages,
    ]
    return EncodedCheckpoint(parts, epoch_ranges.expired)


def _packed_deleted(deleted_below: Mapping[TopicPartition, int]) -> Slices[bytes]:
    table = bytearray()
    for number, partition in enumerate(sorted(deleted_below), 1):
        table += DELETED.pack(*partition, deleted_below[partition])
        if number % SLICE_DELETED == 0:
            yield
    return bytes(table)


class _EpochRanges:
    """The epoch ranges of a checkpoint as they are gathered: their lines, states and pages."""

    def __init__(self, created_ms: int) -> None:
        self.page_table, self.epoch_range_table = bytearray(), bytearray()
        self.page_count = self.states_bytes = self._pages_bytes = 0
        self.states: list[bytes] = []
        self.pages: list[memoryview] = []
        self.expired: list[tuple[EpochKey, Sequence[Expired | ExpiredSink]]] = []
        self._created_ms = created_ms

    def add(self, key: EpochKey, epoch_range: EpochRange) -> Slices[None]:
        state = yield from encode_state_in_slices(epoch_range.state, self._created_ms)
        size, crc = sum(map(len, state.parts)), 0
        for part in state.parts:
            crc = crc32c(part, crc)
            if len(part) >= SLICE_BYTES // 4:
                yield
        self.epoch_range_table += EPOCH_RANGE.pack(
            *key,
            epoch_range.released,
            size,
            crc,
            self.states_bytes,
            epoch_range.start,
            epoch_range.end,
            epoch_range.max_timestamp,
            epoch_range.max_timestamp_offset,
        )
        self.states += state.parts
        self.states_bytes += size
        if state.expired:
            self.expired.append((key, state.expired))
        for page in _pages(epoch_range):
            self.page_table += _pack_page(key, page, self._pages_bytes)
            self.pages.append(page)
            self._pages_bytes += len(page)
            self.page_count += 1


def _pages(epoch_range: EpochRange) -> Iterator[memoryview]:
    rows = memoryview(epoch_range.rows)
    size = PAGE_ROWS_MAX * ROW_BYTES
    return (rows[at : at + size] for at in range(0, len(rows), size))


def _pack_page(key: EpochKey, page: memoryview, position: int) -> bytes:
    count = row_count(page)
    first, last = row_at(page, 0), row_at(page, count - 1)
    return PAGE.pack(
        *key,
        count,
        crc32c(page),
        position,
        first.base_offset,
        last.last_offset + 1,
        last.running_max,
    )


def front_bytes_of(data: bytes) -> int:
    """How long the front is, from its first `HEADER_BYTES_MAX` bytes, or from all of a shorter
    checkpoint. Raises `Corrupt`, `Refused`.
    """
    return decode_checkpoint_header(data).front_bytes


def decode_checkpoint(data: bytes) -> Checkpoint:
    """The front of a checkpoint whose first bytes (all of the front at least) are `data`."""
    header = decode_checkpoint_header(data)
    if len(data) < header.front_bytes:
        raise Corrupt(f"checkpoint cut short: bytes={len(data)} need={header.front_bytes}")
    view = memoryview(data)[: header.front_bytes]
    begin = crc32c(view[: header.header_bytes - CRC.size])
    if crc32c(view[header.header_bytes :], begin) != header.crc:
        raise Corrupt(f"checkpoint fails its checksum: bytes={header.front_bytes}")
    tables = _Tables(view, header.header_bytes)
    pages = PackedLines(PAGE, tables.take(PAGE, header.pages), IndexPage._make)
    earlier = PackedLines(SEQ, tables.take(SEQ, header.earlier), itemgetter(0))
    epoch_ranges = PackedMapping(
        EPOCH_RANGE, tables.take(EPOCH_RANGE, header.epoch_ranges), _key_of, _summary_of
    )
    spans = PackedLines(SPAN, tables.take(SPAN, header.seq - header.from_seq), SegmentSpan._make)
    places = tables.take_places(header.places)
    deleted = PackedMapping(
        DELETED, tables.take(DELETED, header.deleted), _partition_of, itemgetter(2)
    )
    return Checkpoint(
        cluster_id=header.cluster_id,
        epoch=header.epoch,
        seq=header.seq,
        from_seq=header.from_seq,
        broker=header.broker,
        last_nonce=header.last_nonce,
        created_ms=header.created_ms,
        pages=pages,
        earlier=earlier,
        epoch_ranges=epoch_ranges,
        spans=spans,
        places=places,
        deleted_below=deleted,
        front_bytes=header.front_bytes,
        states_bytes=header.states_bytes,
    )


class _Tables:
    """Reads the tables of a front whose checksum held, one after the other."""

    def __init__(self, view: memoryview, at: int) -> None:
        self._view = view
        self._at = at

    def take(self, layout: struct.Struct, count: int) -> memoryview:
        start, self._at = self._at, self._at + count * layout.size
        if self._at > len(self._view):
            raise Corrupt(f"checkpoint table cut short: at={start} count={count}")
        return self._view[start : self._at]

    def take_places(self, count: int) -> list[StagedObject]:
        places = []
        for _ in range(count):
            key_bytes, nonce = PLACE.unpack(self.take(PLACE, 1))
            start, self._at = self._at, self._at + key_bytes
            key = bytes(self._view[start : self._at])
            if len(key) < key_bytes or not key.isascii():
                raise Corrupt(f"bad key in a checkpoint's table of places: at={start}")
            places.append(StagedObject(key.decode("ascii"), nonce))
        return places


def _partition_of(fields: tuple[Any, ...]) -> TopicPartition:
    return TopicPartition(*fields[:2])


def _key_of(fields: tuple[Any, ...]) -> EpochKey:
    return EpochKey(*fields[:3])


def _summary_of(fields: tuple[Any, ...]) -> EpochRangeSummary:
    released, size, crc, position, *offsets = fields[3:]
    start, end, largest, largest_at = offsets
    return EpochRangeSummary(start, end, bool(released), largest, largest_at, position, size, crc)


def chain_state_of(checkpoint: Checkpoint, states: bytes) -> ChainState:
    """The chain as it stood at the checkpoint; `states` are the bytes that follow the front."""
    return finish(chain_state_in_slices(checkpoint, states))


def chain_state_in_slices(checkpoint: Checkpoint, states: bytes) -> Slices[ChainState]:
    """The same."""
    chain = ChainState(
        cluster_id=checkpoint.cluster_id,
        epoch=checkpoint.epoch,
        broker=checkpoint.broker,
        next_seq=checkpoint.seq,
        last_nonce=checkpoint.last_nonce,
        created_ms=checkpoint.created_ms,
        checkpoints=_all_seqs(checkpoint),
        deleted_below=dict(checkpoint.deleted_below.items()),
    )
    view = memoryview(states)
    for number, (key, summary) in enumerate(checkpoint.epoch_ranges.items(), 1):
        end = summary.state_position + summary.state_bytes
        state = view[summary.state_position : end]
        crc = yield from crc32c_in_slices(state)
        if len(state) != summary.state_bytes or crc != summary.state_crc:
            raise Corrupt(
                f"state in a checkpoint fails its checksum: epoch={checkpoint.epoch} "
                f"seq={checkpoint.seq} {key.topic_partition}"
            )
        chain.epoch_ranges[key] = EpochRange(
            start=summary.start,
            end=summary.end,
            state=(yield from decode_state_in_slices(state)),
            released=summary.released,
            max_timestamp=summary.max_timestamp,
            max_timestamp_offset=summary.max_timestamp_offset,
        )
        if number % SLICE_EPOCH_RANGES == 0:
            yield
    return chain


def rebase(chain: ChainState, checkpoint: Checkpoint) -> None:
    """Make `chain`, which is past `checkpoint`, go on from it.

    As good as read from there, to the byte of the next checkpoint; but places stay, as rows say
    which they mean by number.
    """
    dropped = checkpoint.seq - chain.checkpoint
    for epoch_range in chain.epoch_ranges.values():
        number = first_row_for_seq(epoch_range.rows, checkpoint.seq)
        epoch_range.rows = epoch_range.rows[number * ROW_BYTES :]
    chain.spans = chain.spans[dropped:]
    chain.set_checkpoints(_all_seqs(checkpoint))


def _all_seqs(checkpoint: Checkpoint) -> "array[int]":
    """Seqs of this checkpoint and of those that it lists."""
    earlier, seqs = checkpoint.earlier, array("Q")
    if isinstance(earlier, PackedLines):
        seqs.frombytes(earlier.packed)
        if sys.byteorder == "little":
            seqs.byteswap()
    else:
        seqs.extend(earlier)
    seqs.append(checkpoint.seq)
    return seqs


def _packed_seqs(seqs: "array[int]") -> bytes:
    if sys.byteorder == "little":
        seqs.byteswap()
    return seqs.tobytes()
