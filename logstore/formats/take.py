"""Payload of a leadership-begin or leadership-end entry: the partition's state, here or in chunks.

    size  field (big-endian)
       1  form            0 the state follows, 1 it lies in pieces
          form 1:
       4  piece count
          each: seq 8, position in the object 8, length 4, CRC32C 4

A state above 64 KiB goes ahead in `state` entries of earlier segments of the same chain, and the
leadership-begin entry, which comes last, names them; so one partition cannot bloat a segment. Pure.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.records.crc32c import crc32c

INLINE_BYTES_MAX = 64 * 1024
PIECE_BYTES_MAX = 1024 * 1024
PIECES_MAX = 4096

_INLINE, _PIECES = b"\x00", b"\x01"
_COUNT = struct.Struct(">I")
_PIECE = struct.Struct(">QQII")


class StateChunk(NamedTuple):
    """Where a part of a state lies; `position` is from the start of the object."""

    seq: int
    position: int
    length: int
    crc: int


def encode_inline(state: bytes) -> bytes:
    assert len(state) <= INLINE_BYTES_MAX
    return _INLINE + state


def encode_pieces(pieces: Sequence[StateChunk]) -> bytes:
    return _PIECES + _COUNT.pack(len(pieces)) + b"".join(_PIECE.pack(*piece) for piece in pieces)


def decode_payload(payload: bytes) -> bytes | Sequence[StateChunk]:
    """The state, or where its pieces lie. Raises `Corrupt`."""
    form, rest = payload[:1], payload[1:]
    if form == _INLINE:
        return rest
    if form != _PIECES or len(rest) < _COUNT.size:
        raise Corrupt(f"bad payload of a take entry: form={form.hex()} bytes={len(payload)}")
    (count,) = _COUNT.unpack_from(rest)
    if count > PIECES_MAX or len(rest) != _COUNT.size + count * _PIECE.size:
        raise Corrupt(f"bad payload of a take entry: pieces={count} bytes={len(payload)}")
    return [StateChunk(*fields) for fields in _PIECE.iter_unpack(rest[_COUNT.size :])]


def join_pieces(pieces: Sequence[StateChunk], parts: Sequence[bytes]) -> bytes:
    """The state that was cut into `pieces`; `parts` are their bytes. Raises `Corrupt`."""
    for piece, part in zip(pieces, parts, strict=True):
        if len(part) != piece.length or crc32c(part) != piece.crc:
            raise Corrupt(f"piece of a state fails its checksum: seq={piece.seq}")
    return b"".join(parts)
