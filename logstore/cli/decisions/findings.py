"""Damage of a stored object: its key, the byte, the reason. Pure.

Decoding says why; this says where, for the people who look at the bytes.
"""

import struct
from dataclasses import dataclass

from logstore.errors import LogstoreError
from logstore.formats.segment import (
    ENTRY_BYTES,
    FORMAT,
    FORMAT_ADOPT_END,
    HEADER_BYTES,
    MAGIC,
    EntryKind,
    Header,
    SegmentKind,
    decode_header,
)
from logstore.records.crc32c import crc32c

FORMAT_AT, KIND_AT, CLUSTER_AT, EPOCH_AT, SEQ_AT, PREVIOUS_NONCE_AT = 4, 6, 8, 24, 32, 64
INDEX_BYTES_AT, BODY_CRC_AT = 88, 104
CRC_AT = HEADER_BYTES - 4

_BEGINNING = struct.Struct(">4sHB")


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage. `at` is a byte of the object named `key`; None if it is none in particular."""

    key: str
    at: int | None
    cause: str

    def __str__(self) -> str:
        where = "" if self.at is None else f" at byte {self.at}"
        return f"{self.key}{where}: {self.cause}"


def front_finding(key: str, front: bytes, error: LogstoreError) -> Finding:
    """Where in a segment's header or index lies what `error` complains of."""
    return Finding(key, _front_damage_at(front), str(error))


def size_finding(key: str, header: Header, size_bytes: int) -> Finding | None:
    """A segment is as long as its header says, or it is damaged."""
    wanted = header.body_at + header.body_bytes
    if size_bytes == wanted:
        return None
    fault = "cut short" if size_bytes < wanted else "has bytes after its end"
    return Finding(
        key, min(size_bytes, wanted), f"segment {fault}: bytes={size_bytes} expected={wanted}"
    )


def identity_finding(
    key: str, header: Header, cluster_id: bytes, epoch: int, seq: int
) -> Finding | None:
    """Is this the segment that its key says?"""
    if header.cluster_id != cluster_id:
        return Finding(key, CLUSTER_AT, f"segment of another cluster: {header.cluster_id.hex()}")
    if header.epoch != epoch:
        return Finding(key, EPOCH_AT, f"segment of another chain: epoch={header.epoch}")
    if header.seq != seq:
        return Finding(key, SEQ_AT, f"segment of another place: seq={header.seq}")
    if (header.kind is SegmentKind.OPENING) != (seq == 0):
        return Finding(key, KIND_AT, f"segment of the wrong kind: kind={header.kind.name.lower()}")
    return None


def splice_finding(key: str, header: Header, previous: Header) -> Finding | None:
    """Does the segment go on from the one before it?"""
    if header.previous_nonce == previous.nonce:
        return None
    return Finding(key, PREVIOUS_NONCE_AT, "chain is spliced: this does not follow the one before")


def _front_damage_at(front: bytes) -> int:
    try:
        header = decode_header(front)
    except LogstoreError:
        return _header_damage_at(front)
    if len(front) < header.body_at:
        return len(front)
    (stored,) = struct.unpack_from(">I", front, CRC_AT)
    if crc32c(front[HEADER_BYTES : header.body_at], crc32c(front[:CRC_AT])) != stored:
        return CRC_AT
    # The checksum holds, so it is an entry that this version does not know, or a state.
    for number in range(header.entry_count):
        at = HEADER_BYTES + number * ENTRY_BYTES
        if front[at] not in EntryKind._value2member_map_:
            return at
    return header.body_at


def _header_damage_at(front: bytes) -> int:
    if len(front) < HEADER_BYTES:
        return len(front)
    magic, form, kind = _BEGINNING.unpack_from(front)
    if magic != MAGIC:
        return 0
    if not FORMAT <= form <= FORMAT_ADOPT_END:
        return FORMAT_AT
    return INDEX_BYTES_AT if kind in SegmentKind._value2member_map_ else KIND_AT
