"""Payload of a leadership-begin or leadership-end entry: the partition's state, here or in chunks.

    size  field (big-endian)
       1  form            0 the state follows, 1 it lies in chunks
          form 1:
       4  chunk count
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
CHUNK_BYTES_MAX = 1024 * 1024
CHUNKS_MAX = 4096

_INLINE, _CHUNKS = b"\x00", b"\x01"
_COUNT = struct.Struct(">I")
_CHUNK = struct.Struct(">QQII")


class StateChunk(NamedTuple):
    """Where a part of a state lies; `position` is from the start of the object."""

    seq: int
    position: int
    length: int
    crc: int


def encode_inline(state: bytes) -> bytes:
    assert len(state) <= INLINE_BYTES_MAX
    return _INLINE + state


def encode_chunks(chunks: Sequence[StateChunk]) -> bytes:
    return _CHUNKS + _COUNT.pack(len(chunks)) + b"".join(_CHUNK.pack(*chunk) for chunk in chunks)


def decode_payload(payload: bytes) -> bytes | Sequence[StateChunk]:
    """The state, or where its chunks lie. Raises `Corrupt`."""
    form, rest = payload[:1], payload[1:]
    if form == _INLINE:
        return rest
    if form != _CHUNKS or len(rest) < _COUNT.size:
        raise Corrupt(f"bad payload of a leadership entry: form={form.hex()} bytes={len(payload)}")
    (count,) = _COUNT.unpack_from(rest)
    if count > CHUNKS_MAX or len(rest) != _COUNT.size + count * _CHUNK.size:
        raise Corrupt(f"bad payload of a leadership entry: chunks={count} bytes={len(payload)}")
    return [StateChunk(*fields) for fields in _CHUNK.iter_unpack(rest[_COUNT.size :])]


def join_chunks(chunks: Sequence[StateChunk], parts: Sequence[bytes]) -> bytes:
    """The state that was cut into `chunks`; `parts` are their bytes. Raises `Corrupt`."""
    for chunk, part in zip(chunks, parts, strict=True):
        if len(part) != chunk.length or crc32c(part) != chunk.crc:
            raise Corrupt(f"piece of a state fails its checksum: seq={chunk.seq}")
    return b"".join(parts)
