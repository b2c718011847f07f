"""The header of a checkpoint, and the layouts of the tables behind it (`formats.checkpoint`). Pure.

The header says how long the front is, which a reader must know before it can check the checksum.
"""

import struct
from typing import NamedTuple

from logstore.errors import Corrupt, Refused
from logstore.formats.chain_state import ChainState
from logstore.formats.segment import KEY_BYTES_MAX, PLACE

MAGIC = b"LGCP"
FORMAT, FORMAT_DELETED_BELOW = 1, 2
HEADER = struct.Struct(">4sH2x16sQQQi16sqIIIIQQ")
CRC = COUNT = struct.Struct(">I")
HEADER_BYTES_MAX = HEADER.size + COUNT.size + CRC.size
"""Enough of a checkpoint to know how long its front is."""
PAGE = struct.Struct(">16siiIIQqqq")
EPOCH_RANGE = struct.Struct(">16siiB3xIIQqqqq")
SPAN = struct.Struct(">IQ")
SEQ = struct.Struct(">Q")
DELETED = struct.Struct(">16siQ")


class CheckpointHeader(NamedTuple):
    """The header of a front, of either format."""

    cluster_id: bytes
    epoch: int
    seq: int
    from_seq: int
    broker: int
    last_nonce: bytes
    created_ms: int
    pages: int
    earlier: int
    epoch_ranges: int
    places: int
    front_bytes: int
    states_bytes: int
    deleted: int
    crc: int
    header_bytes: int


def decode_checkpoint_header(data: bytes | memoryview) -> CheckpointHeader:
    """Raises `Corrupt`, `Refused`.

    The length of the front is read before the checksum that covers it can be checked, so it must
    agree with the counts beside it: a wrong bit must not ask a store, or memory, for exabytes.
    """
    header_bytes = HEADER.size + CRC.size
    if len(data) < header_bytes:
        raise Corrupt(f"checkpoint too short for its header: bytes={len(data)}")
    magic, form, *fields = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Corrupt(f"not a checkpoint: magic={magic!r}")
    if not FORMAT <= form <= FORMAT_DELETED_BELOW:
        known = FORMAT_DELETED_BELOW
        raise Refused(f"checkpoint of an unknown format: format={form} known={known}; upgrade")
    deleted = 0
    if form == FORMAT_DELETED_BELOW:
        header_bytes += COUNT.size
        if len(data) < header_bytes:
            raise Corrupt(f"checkpoint too short for its header: bytes={len(data)}")
        (deleted,) = COUNT.unpack_from(data, HEADER.size)
    (crc,) = CRC.unpack_from(data, header_bytes - CRC.size)
    header = CheckpointHeader._make([*fields, deleted, crc, header_bytes])
    least = (
        header_bytes
        + header.pages * PAGE.size
        + header.earlier * SEQ.size
        + header.epoch_ranges * EPOCH_RANGE.size
        + (header.seq - header.from_seq) * SPAN.size
        + header.places * PLACE.size
        + header.deleted * DELETED.size
    )
    most = least + header.places * KEY_BYTES_MAX
    if header.seq < header.from_seq or not least <= header.front_bytes <= most:
        raise Corrupt(
            f"checkpoint whose counts do not give its length: front_bytes={header.front_bytes}"
        )
    return header


def encode_checkpoint_header(
    chain: ChainState, *, pages: int, tables_bytes: int, states_bytes: int
) -> bytes:
    """All but its CRC32C; format 2 only where the chain says what was deleted."""
    deleted = len(chain.deleted_below)
    count = COUNT.pack(deleted) if deleted else b""
    return (
        HEADER.pack(
            MAGIC,
            FORMAT_DELETED_BELOW if deleted else FORMAT,
            chain.cluster_id,
            chain.epoch,
            chain.next_seq,
            chain.checkpoint,
            chain.broker,
            chain.last_nonce,
            chain.created_ms,
            pages,
            len(chain.checkpoints),
            len(chain.epoch_ranges),
            len(chain.places),
            HEADER.size + len(count) + CRC.size + tables_bytes,
            states_bytes,
        )
        + count
    )
