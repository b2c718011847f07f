"""gzip members as other encoders write them, and members that break one rule. Seeded, pure.

RFC 1952: 1f8b, method 8, flags, mtime u32, extra flags, system, [extra: length u16, bytes], [name
and 0], [comment and 0], [CRC of the header u16], deflate, CRC-32 u32, size u32. Little-endian.
"""

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Mapping
from itertools import pairwise

_TEXT, _CHECKED, _EXTRA, _NAME, _COMMENT = 1, 2, 4, 8, 16
_STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE)


def deflated(rng: random.Random, data: bytes) -> bytes:
    """Of any level (0: stored), window, strategy and flushes."""
    level, window = rng.choice([0, 1, 6, 9]), -rng.randrange(9, 16)
    packer = zlib.compressobj(level, zlib.DEFLATED, window, 8, rng.choice(_STRATEGIES))
    cut = rng.randrange(len(data) + 1)
    flush = rng.choice([zlib.Z_NO_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH])
    parts = [packer.compress(data[:cut]), packer.flush(flush) if flush else b""]
    return b"".join([*parts, packer.compress(data[cut:]), packer.flush()])


def member(
    rng: random.Random,
    data: bytes,
    *,
    flags: int = 0,
    method: int = 8,
    check_error: int = 0,
    crc_error: int = 0,
    size_error: int = 0,
) -> bytes:
    """One member with the optional fields of `flags`; errors are added to what is right."""
    start = b"\x1f\x8b" + bytes([method, flags]) + rng.randbytes(6)
    if flags & _EXTRA:
        extra = rng.randbytes(rng.choice([0, 4, 300]))
        start += struct.pack("<H", len(extra)) + extra
    for bit in (_NAME, _COMMENT):
        if flags & bit:
            start += rng.choice([b"", b"a name", b"\xe9" * 500]) + b"\0"
    if flags & _CHECKED:
        start += struct.pack("<H", (zlib.crc32(start) + check_error) & 0xFFFF)
    crc, size = zlib.crc32(data) + crc_error, len(data) + size_error
    return start + deflated(rng, data) + struct.pack("<II", crc & 0xFFFFFFFF, size & 0xFFFFFFFF)


def _in_members(rng: random.Random, data: bytes) -> bytes:
    """Some of them empty; boundaries anywhere, also where Java's buffer of 8 KiB ends."""
    count = rng.choice([2, 2, 3, 20])
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(count - 1))
    edges = [0, *cuts, len(data)]
    return b"".join(
        member(rng, data[low:high], flags=_some_flags(rng)) for low, high in pairwise(edges)
    )


def _members_at_a_buffers_end(rng: random.Random, data: bytes) -> bytes:
    """The first member's trailer begins some bytes before or behind 8192 bytes after the header."""
    first, second = data[: len(data) // 2], data[len(data) // 2 :]
    bare = len(member(rng, first))
    name_bytes = (8192 - bare + rng.randrange(-40, 40)) % 8192
    start = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * name_bytes + b"\0"
    trailer = struct.pack("<II", zlib.crc32(first), len(first))
    padding = deflated(rng, first)
    return start + padding + trailer + member(rng, second)


def _stored_to_a_buffers_end(rng: random.Random, data: bytes) -> bytes:
    """A first member of stored bytes, whose end is near the end of Java's first buffer."""
    first = data[: min(len(data) // 2, 8192 - 5)]
    empty_blocks = (8192 - 5 - len(first) + rng.randrange(-30, 12)) // 5
    stored = b"\0\0\0\xff\xff" * max(0, empty_blocks)
    stored += b"\1" + struct.pack("<HH", len(first), len(first) ^ 0xFFFF) + first
    head = b"\x1f\x8b\x08\0" + bytes(6)
    trailer = struct.pack("<II", zlib.crc32(first), len(first))
    return head + stored + trailer + member(rng, data[len(first) :])


def _some_flags(rng: random.Random) -> int:
    return rng.choice([0, 0, rng.randrange(32)])


def _flagged(bits: int) -> Callable[[random.Random, bytes], bytes]:
    return lambda rng, data: member(rng, data, flags=bits)


FORMS: Mapping[str, Callable[[random.Random, bytes], bytes]] = {
    "of zlib": lambda rng, data: gzip.compress(data, rng.choice([0, 1, 6, 9])),
    "any deflate": member,
    "marked as text": _flagged(_TEXT),
    "a checked header": _flagged(_CHECKED),
    "an extra field": _flagged(_EXTRA),
    "a name": _flagged(_NAME),
    "a comment": _flagged(_COMMENT),
    "all fields": _flagged(31),
    "several members": _in_members,
    "members near 8 KiB": _members_at_a_buffers_end,
    "a stored member near 8 KiB": _stored_to_a_buffers_end,
    "an empty member before": lambda rng, data: member(rng, b"") + member(rng, data),
    "an empty member behind": lambda rng, data: member(rng, data) + member(rng, b""),
    "a wrong check of the header": lambda rng, data: member(rng, data, flags=2, check_error=1),
    "reserved flags": lambda rng, data: member(rng, data, flags=rng.choice([32, 64, 128])),
    "another method": lambda rng, data: member(rng, data, method=rng.choice([0, 7, 9])),
    "a wrong CRC": lambda rng, data: member(rng, data, crc_error=rng.choice([1, 1 << 31])),
    "a wrong size": lambda rng, data: member(rng, data, size_error=rng.choice([-1, 1, 1 << 20])),
    "no trailer": lambda rng, data: member(rng, data)[:-8],
    "a trailer cut": lambda rng, data: member(rng, data)[: -rng.randrange(1, 8)],
    "a header alone": lambda rng, data: member(rng, data)[: rng.randrange(11)],
    "bytes behind": lambda rng, data: member(rng, data) + rng.randbytes(rng.choice([1, 4, 30])),
    "zeros behind": lambda rng, data: member(rng, data) + bytes(rng.choice([1, 4, 30])),
    "a member cut behind": lambda rng, data: (
        member(rng, data[: len(data) // 2]) + member(rng, data[len(data) // 2 :])[:-3]
    ),
    "a wrong member behind": lambda rng, data: member(rng, data) + member(rng, b"x", crc_error=1),
    "a second header behind": lambda rng, data: member(rng, data) + member(rng, b"")[:10],
    "zlib": lambda rng, data: zlib.compress(data),
    "deflate alone": deflated,
    "nothing": lambda rng, data: b"",
}
