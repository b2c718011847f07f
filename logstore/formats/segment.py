"""Bytes of a segment, formats 1 to 4: fixed header, index, then batches.

    at    size  header field (big-endian)
      0      4  magic            b"LGSG"
      4      2  format           1, or 2 if any entry is of a kind above 5, 3 above 7, 4 above 8
      6      1  kind             0 opening, 1 data, 2 seal, 3 staged (`formats.staged_object`)
      7      1  reserved         0
      8     16  cluster id
     24      8  epoch            broker epoch: the chain this segment belongs to
     32      8  seq              place in the chain; 0 is the opening, the last is the seal
     40      4  broker           its writer (of a seal: the broker that sealed)
     44      4  entry count
     48     16  nonce            random, drawn once per segment
     64     16  previous nonce   that of seq - 1; zeros in an opening
     80      8  created ms       when its first batch came; never falls along a chain
     88      4  index bytes      entries and the table of places
     92      4  place count      staged objects that adopted batches lie in (reserved: 0)
     96      8  body bytes
    104      4  body CRC32C
    108      4  CRC32C           of header [0, 108) and the index
    112         index            entry count x 96 bytes, then the places: length u16, nonce 16, key
    112 + index bytes            body: batches, and the states that entries carry, in any order

Entries are in the order in which batches came. Where topics are mixed, the body has the batches by
topic and partition (`formats.body_order`), else as they came, like bodies of older writers.

Bytes [0, 80) are the identity: a writer that finds its own identity under a key has won the put.
The index comes first so that one ranged read of the front gives identity and index. Batches and
states carry checksums of their own, for those who read parts; but a batch's leaves out its first 21
bytes, offset, length and leader epoch among them, so the whole body has one too.

    at    size  index entry
      0      1  kind             1 batch, 2 take (leadership begin), 3 release (leadership end),
                                 4 adopted batch (reserved), 5 state, 6 forget, 7 cut,
                                 8 deleted below, 9 adopt end
      1      1  flags            1 log append time, 2 transactional, 4 control: attributes >> 3
      2      2  place            0 this object, n the n-th place
      4      4  partition
      8     16  topic id
     24      4  leader epoch
     28      4  length           bytes at `position`
     32      8  position         from the start of the body of its place
     40      8  base offset      take: where the epoch range starts; release: where it ends
                                 forget: where the epoch range ends; cut: a seq
                                 deleted below: the offset, 0 none
     48      8  last offset      all but batches and adopt ends: base offset - 1
     56      8  producer id      -1 none
     64      2  producer epoch
     66      2  reserved
     68      4  base sequence
     72      8  max timestamp
     80      8  its offset       -1: some record of this batch, a look-up decodes it
     88      4  record count
     92      4  CRC32C           of the state at `position`; 0 for batches
     96

An adopt end stands behind the batches that a leader copied of one batch of a Spark sink, in the
same segment, so that the records and the memory of them are never apart. A replay needs no byte of
the body for it: base and last offset are those of the copied batches, `producer id` is the sink's
batch number, `base sequence` how many batches of it this partition has by now, `record count` how
many it will have in all; `max timestamp` and `its offset` together are the hash of the sink's id.

Reserved: nothing writes adopted batches, which stay in their staged object. Readers check their
form, and refuse to read their records.

Pure. A reader refuses an unknown kind or a newer format; changing a line above is a format change,
and docs/formats/segment.md says how.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from logstore.errors import Corrupt, Refused
from logstore.records.crc32c import crc32c, crc32c_in_slices
from logstore.slices import Slices, finish

MAGIC = b"LGSG"
FORMAT, FORMAT_FORGETTING, FORMAT_DELETED_BELOW, FORMAT_ADOPT_END = 1, 2, 3, 4
"""The second if an epoch range is forgotten or a list of checkpoints cut, the third if an entry
says below which offset records were deleted, the fourth if batches were copied for a sink."""
HEADER = struct.Struct(">4sHBx16sQQiI16s16sqIIQII")
HEADER_BYTES = HEADER.size
IDENTITY_BYTES = 80
ENTRY = struct.Struct(">BBHi16siIQqqqh2xiqqII")
ENTRY_BYTES = ENTRY.size
PLACE = struct.Struct(">H16s")
_TWO_FIELDS = struct.Struct(">qq")
KEY_BYTES_MAX = 1024
"""Maximum length of an object key, also in `logstore.objects.keys`."""

NO_NONCE = bytes(16)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 1, 2, 4

assert HEADER_BYTES == 112
assert ENTRY_BYTES == 96


class SegmentKind(IntEnum):
    OPENING = 0
    DATA = 1
    SEAL = 2
    STAGED = 3


class EntryKind(IntEnum):
    BATCH = 1
    TAKE = 2
    """The leadership-begin entry of an epoch range."""
    RELEASE = 3
    """Its leadership-end entry."""
    ADOPTED = 4
    STATE = 5
    FORGET = 6
    """An epoch range of this chain that is no longer needed: checkpoints leave it out."""
    CUT = 7
    """Checkpoints below a seq are deleted: later ones do not list them. Of no partition."""
    DELETED_BELOW = 8
    """Records of a partition below an offset were deleted, so that the chain forgets the epoch
    ranges there. Offset 0: the topic is deleted, its partition needs no such offset any more."""
    ADOPT_END = 9
    """Batches before it, in this segment, were copied for a sink: `AdoptEnd`."""


KNOWN_KINDS = EntryKind._value2member_map_


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    kind: SegmentKind
    cluster_id: bytes
    epoch: int
    seq: int
    broker: int
    entry_count: int
    nonce: bytes
    previous_nonce: bytes
    created_ms: int
    index_bytes: int
    place_count: int
    body_bytes: int
    body_crc: int

    @property
    def body_at(self) -> int:
        return HEADER_BYTES + self.index_bytes


@dataclass(frozen=True, slots=True)
class StagedObject:
    """A staged object that adopted batches lie in; `nonce` is that object's own."""

    key: str
    nonce: bytes


class Entry(NamedTuple):
    """One line of the index, fields in stored order."""

    kind: int
    flags: int
    place: int
    partition: int
    topic_id: bytes
    leader_epoch: int
    length: int
    position: int
    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    max_timestamp_offset: int
    record_count: int
    crc: int


class AdoptEnd(NamedTuple):
    """Progress of one batch of a sink in one partition, as its adopt end says it."""

    sink: bytes
    """Hash of the sink's id, 16 bytes."""
    batch: int
    """The sink's number of it: Spark's batch id."""
    batches_done: int
    """Record batches that the partition has of it, with those that this entry stands behind."""
    batches_total: int
    first_offset: int
    last_offset: int
    """Of the batches that this entry stands behind."""

    @staticmethod
    def of(entry: Entry) -> "AdoptEnd":
        halves = _TWO_FIELDS.pack(entry.max_timestamp, entry.max_timestamp_offset)
        return AdoptEnd(
            halves,
            entry.producer_id,
            entry.base_sequence,
            entry.record_count,
            entry.base_offset,
            entry.last_offset,
        )

    def entry(self, topic_id: bytes, partition: int, leader_epoch: int) -> Entry:
        first_half, second_half = _TWO_FIELDS.unpack(self.sink)
        return Entry(
            EntryKind.ADOPT_END,
            0,
            0,
            partition,
            topic_id,
            leader_epoch,
            0,
            0,
            self.first_offset,
            self.last_offset,
            self.batch,
            -1,
            self.batches_done,
            first_half,
            second_half,
            self.batches_total,
            0,
        )


@dataclass(frozen=True, slots=True)
class Index:
    header: Header
    entries: Sequence[Entry]
    places: Sequence[StagedObject]


def encode_front(header: Header, entries: bytes, places: Sequence[StagedObject]) -> bytes:
    """Header and index as they are stored; `entries` are packed already.

    `entry_count`, `index_bytes` and `place_count` of `header` are ignored and computed here.
    """
    table = b"".join(PLACE.pack(len(p.key), p.nonce) + p.key.encode() for p in places)
    index = entries + table
    packed = HEADER.pack(
        MAGIC,
        _format_of(max(entries[::ENTRY_BYTES], default=0)),
        header.kind,
        header.cluster_id,
        header.epoch,
        header.seq,
        header.broker,
        len(entries) // ENTRY_BYTES,
        header.nonce,
        header.previous_nonce,
        header.created_ms,
        len(index),
        len(places),
        header.body_bytes,
        header.body_crc,
        0,
    )[:-4]
    return packed + struct.pack(">I", crc32c(index, crc32c(packed))) + index


def _format_of(highest_kind: int) -> int:
    if highest_kind > EntryKind.DELETED_BELOW:
        return FORMAT_ADOPT_END
    if highest_kind > EntryKind.CUT:
        return FORMAT_DELETED_BELOW
    return FORMAT_FORGETTING if highest_kind > EntryKind.STATE else FORMAT


def decode_header(front: bytes | memoryview) -> Header:
    """The header at the start of `front`; its checksum is `decode_front`'s to check.

    Raises `Corrupt`, or `Refused` for a format this version does not know.
    """
    if len(front) < HEADER_BYTES:
        raise Corrupt(f"segment too short for its header: bytes={len(front)} need={HEADER_BYTES}")
    magic, form, kind, *fields = HEADER.unpack_from(front)
    if magic != MAGIC:
        raise Corrupt(f"not a segment: magic={bytes(magic)!r}")
    if not FORMAT <= form <= FORMAT_ADOPT_END:
        raise Refused(
            f"segment of an unknown format: format={form} known={FORMAT_ADOPT_END}; upgrade"
        )
    if kind not in SegmentKind._value2member_map_:
        raise Refused(f"segment of an unknown kind: kind={kind}; upgrade")
    cluster_id, epoch, seq, broker, entry_count, nonce, previous_nonce = fields[:7]
    created_ms, index_bytes, place_count, body_bytes, body_crc, _crc = fields[7:]
    least = entry_count * ENTRY_BYTES + place_count * PLACE.size
    if not least <= index_bytes <= least + place_count * KEY_BYTES_MAX:
        # Believed before its checksum is known: readers ask for as many bytes.
        raise Corrupt(f"index of another length: bytes={index_bytes} entries={entry_count}")
    return Header(
        kind=SegmentKind(kind),
        cluster_id=cluster_id,
        epoch=epoch,
        seq=seq,
        broker=broker,
        entry_count=entry_count,
        nonce=nonce,
        previous_nonce=previous_nonce,
        created_ms=created_ms,
        index_bytes=index_bytes,
        place_count=place_count,
        body_bytes=body_bytes,
        body_crc=body_crc,
    )


def body_of(segment: bytes | memoryview, header: Header) -> memoryview:
    """The body of a whole segment. Raises `Corrupt` when it is cut short or fails its checksum."""
    body = memoryview(segment)[header.body_at :]
    where = f"epoch={header.epoch} seq={header.seq}"
    if len(body) != header.body_bytes:
        raise Corrupt(f"segment cut short: {where} bytes={len(body)} need={header.body_bytes}")
    if crc32c(body) != header.body_crc:
        raise Corrupt(f"segment fails its checksum: {where}")
    return body


def decode_front(front: bytes | memoryview) -> Index:
    """Header and index of a segment whose first `header.body_at` bytes are in `front`."""
    header = decode_header(front)
    view = memoryview(front)
    index = finish(checked_index(header, view))
    entries_end = header.entry_count * ENTRY_BYTES
    entries = [Entry(*fields) for fields in ENTRY.iter_unpack(index[:entries_end])]
    places = _decode_places(index[entries_end:], header.place_count)
    _check_entries(header, entries)
    return Index(header, entries, places)


def checked_index(header: Header, front: memoryview) -> Slices[memoryview]:
    """The index behind `header`, its entries not looked at. Raises `Corrupt`."""
    if len(front) < header.body_at:
        raise Corrupt(f"index cut short: bytes={len(front)} need={header.body_at}")
    index = front[HEADER_BYTES : header.body_at]
    (stored,) = struct.unpack_from(">I", front, HEADER_BYTES - 4)
    found = yield from crc32c_in_slices(index, crc32c(front[: HEADER_BYTES - 4]))
    if found != stored:
        raise Corrupt(f"segment index fails its checksum: epoch={header.epoch} seq={header.seq}")
    return index


def _decode_places(table: memoryview, count: int) -> list[StagedObject]:
    places, at = [], 0
    for _ in range(count):
        if at + PLACE.size > len(table):
            raise Corrupt(f"table of places cut short: at={at} bytes={len(table)}")
        key_bytes, nonce = PLACE.unpack_from(table, at)
        at += PLACE.size
        key = bytes(table[at : at + key_bytes])
        at += key_bytes
        if at > len(table) or not key.isascii():
            raise Corrupt(f"bad key in the table of places: at={at}")
        places.append(StagedObject(key.decode("ascii"), nonce))
    if at != len(table):
        raise Corrupt(f"bytes left over in the index: at={at} bytes={len(table)}")
    return places


def _check_entries(header: Header, entries: Sequence[Entry]) -> None:
    for entry in entries:
        if entry.kind not in KNOWN_KINDS:
            raise Refused(f"index entry of an unknown kind: kind={entry.kind}; upgrade")
        if entry.place > header.place_count:
            raise Corrupt(f"index entry names no place: place={entry.place}")
        if entry.place == 0 and entry.position + entry.length > header.body_bytes:
            raise Corrupt(
                f"index entry points past the body: position={entry.position} "
                f"length={entry.length} body={header.body_bytes}"
            )
