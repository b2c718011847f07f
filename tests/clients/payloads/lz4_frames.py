"""lz4 frames as other encoders write them, and frames that break one rule. Seeded, pure.

`logstore.records.strict_frames` draws a frame.
"""

import random
import struct
from collections.abc import Callable, Mapping, Sequence

import lz4.block
import lz4.frame

_MAGIC = bytes.fromhex("04224d18")
_LEGACY = bytes.fromhex("02214c18")
_SKIPPABLE = bytes.fromhex("5a2a4d18")
_STORED = 1 << 31
_INDEPENDENT, _BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x60, 0x70, 0x68, 0x64
_END = bytes(4)
_BLOCK_BYTES = 1 << 16
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_U32_MAX = 0xFFFFFFFF


def encoded(rng: random.Random, data: bytes) -> bytes:
    """By liblz4, with any of its options but linked blocks."""
    return _by_liblz4(rng, data, linked=False)


def linked(rng: random.Random, data: bytes) -> bytes:
    return _by_liblz4(rng, data, linked=True)


def _by_liblz4(rng: random.Random, data: bytes, *, linked: bool) -> bytes:
    sizes = (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX256KB, lz4.frame.BLOCKSIZE_MAX4MB)
    packer = lz4.frame.LZ4FrameCompressor(
        block_size=rng.choice(sizes),
        block_linked=linked,
        compression_level=rng.choice([0, 0, 3, 9]),
        content_checksum=rng.random() < 0.5,
        block_checksum=rng.random() < 0.5,
        auto_flush=rng.random() < 0.5,
    )
    parts = [packer.begin(rng.choice([0, len(data)]))]
    step = rng.choice([len(data), max(1, len(data) // 3)])
    parts += [packer.compress(data[at : at + step]) for at in range(0, len(data), step)]
    return b"".join([*parts, packer.flush()])


def xxh32(data: bytes, seed: int = 0) -> int:
    """xxHash's 32 bits: the checksum of lz4 frames."""
    lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
    at = 0
    while len(data) - at >= 16:
        for i, word in enumerate(struct.unpack_from("<4I", data, at)):
            lanes[i] = _rotated(lanes[i] + word * _P2, 13) * _P1 & _U32_MAX
        at += 16
    turns = (1, 7, 12, 18)
    total = sum(_rotated(lane, by) for lane, by in zip(lanes, turns, strict=True))
    total = (total if len(data) >= 16 else seed + _P5) + len(data)
    while len(data) - at >= 4:
        total = _rotated(total + struct.unpack_from("<I", data, at)[0] * _P3, 17) * _P4
        at += 4
    for byte in data[at:]:
        total = _rotated(total + byte * _P5, 11) * _P1
    total &= _U32_MAX
    total = (total ^ total >> 15) * _P2 & _U32_MAX
    total = (total ^ total >> 13) * _P3 & _U32_MAX
    return total ^ total >> 16


def _rotated(number: int, by: int) -> int:
    number &= _U32_MAX
    return (number << by | number >> 32 - by) & _U32_MAX


def head(flags: int = _INDEPENDENT, sizes: int = 0x40, more: bytes = b"") -> bytes:
    """A frame's header, its check right; `more`: content size, dictionary."""
    described = bytes([flags, sizes]) + more
    return _MAGIC + described + bytes([xxh32(described) >> 8 & 0xFF])


def block(data: bytes, *, is_stored: bool = False) -> bytes:
    packed = data if is_stored else raw(data)
    return _length(packed, is_stored) + packed


def raw(data: bytes) -> bytes:
    packed: bytes = lz4.block.compress(data, store_size=False)
    return packed


def _length(packed: bytes, is_stored: bool) -> bytes:
    return struct.pack("<I", len(packed) | _STORED * is_stored)


def _pieces(rng: random.Random, data: bytes) -> Sequence[bytes]:
    step = min(rng.choice([len(data), len(data) // 2, 100]), _BLOCK_BYTES)
    return [data[at : at + max(step, 1)] for at in range(0, len(data), max(step, 1))]


def _blocks(rng: random.Random, data: bytes) -> list[bytes]:
    return [block(piece, is_stored=rng.random() < 0.3) for piece in _pieces(rng, data)]


def _built(rng: random.Random, data: bytes, flags: int = _INDEPENDENT, more: bytes = b"") -> bytes:
    return head(flags, 0x40, more) + b"".join(_blocks(rng, data)) + _END


def _with_block_checksums(rng: random.Random, data: bytes, error: int) -> bytes:
    """`error` is added to the checksum of one block."""
    blocks = _blocks(rng, data[: 1 << 14]) + _blocks(rng, data[1 << 14 :])
    wrong = rng.randrange(len(blocks))
    parts = [head(_BLOCK_CHECKSUMS)]
    for number, one in enumerate(blocks):
        total = xxh32(one[4:]) + error * (number == wrong)
        parts += (one, struct.pack("<I", total & _U32_MAX))
    return b"".join(parts) + _END


def _with_extra_block(rng: random.Random, data: bytes, extra: bytes) -> bytes:
    blocks = _blocks(rng, data)
    blocks.insert(rng.randrange(len(blocks) + 1), extra)
    return head() + b"".join(blocks) + _END


def _too_large_block(rng: random.Random, data: bytes) -> bytes:
    filled = data + bytes(_BLOCK_BYTES + rng.randrange(1, 9))
    return head() + block(filled, is_stored=rng.random() < 0.5) + _END


def _checked_over_magic(rng: random.Random, data: bytes) -> bytes:
    """The header's check as Kafka's clients computed it for magic 0 and 1."""
    frame = _built(rng, data)
    return frame[:6] + bytes([xxh32(frame[:6]) >> 8 & 0xFF]) + frame[7:]


def _legacy(rng: random.Random, data: bytes) -> bytes:
    packed = raw(data)
    return _LEGACY + struct.pack("<I", len(packed)) + packed


def _skippable(rng: random.Random) -> bytes:
    filling = rng.randbytes(rng.randrange(9))
    return _SKIPPABLE + struct.pack("<I", len(filling)) + filling


def _sized(rng: random.Random, data: bytes, error: int) -> bytes:
    more = struct.pack("<Q", len(data) + error)
    return _built(rng, data, _CONTENT_SIZE, more)


def _checksummed(rng: random.Random, data: bytes, error: int) -> bytes:
    total = xxh32(data) + error
    return _built(rng, data, _CONTENT_CHECKSUM) + struct.pack("<I", total & _U32_MAX)


FORMS: Mapping[str, Callable[[random.Random, bytes], bytes]] = {
    "of liblz4": encoded,
    "blocks of any size": _built,
    "content size": lambda rng, data: _sized(rng, data, 0),
    "content checksum": lambda rng, data: _checksummed(rng, data, 0),
    "block checksums": lambda rng, data: _with_block_checksums(rng, data, 0),
    "linked blocks": linked,
    "any flags": lambda rng, data: _built(rng, data, rng.randrange(256)),
    "any block size": lambda rng, data: (
        head(sizes=rng.randrange(256)) + b"".join(_blocks(rng, data)) + _END
    ),
    "wrong check of the header": lambda rng, data: (
        head()[:6] + rng.randbytes(1) + _built(rng, data)[7:]
    ),
    "check of the header over the magic": _checked_over_magic,
    "wrong content size": lambda rng, data: _sized(rng, data, rng.choice([-1, 1, 1 << 40])),
    "wrong content checksum": lambda rng, data: _checksummed(rng, data, rng.choice([-1, 1 << 9])),
    "content checksum left out": lambda rng, data: _checksummed(rng, data, 0)[:-4],
    "content checksum cut": lambda rng, data: _checksummed(rng, data, 0)[: -rng.randrange(1, 4)],
    "wrong block checksum": lambda rng, data: _with_block_checksums(rng, data, rng.choice([1, -9])),
    "dictionary": lambda rng, data: _built(rng, data, 0x61, rng.randbytes(4)),
    "an empty stored block": lambda rng, data: _with_extra_block(rng, data, b"\0\0\0\x80"),
    "an empty packed block": lambda rng, data: _with_extra_block(rng, data, b"\1\0\0\0\0"),
    "a block behind an empty one": lambda rng, data: (
        _built(rng, data)[:-4] + rng.choice([b"\0\0\0\x80", b"\1\0\0\0\0"]) + block(b"x") + _END
    ),
    "a block that cannot be unpacked": lambda rng, data: _with_extra_block(
        rng, data, _length(b"\xf0" * 9, False) + b"\xf0" * 9
    ),
    "a block larger than the frame's": _too_large_block,
    "a block longer than the rest": lambda rng, data: _built(rng, data)[:-4] + b"\xff\xff\0\0",
    "no end mark": lambda rng, data: _built(rng, data)[:-4],
    "an end mark with the stored bit": lambda rng, data: _built(rng, data)[:-4] + b"\0\0\0\x80",
    "an end mark cut": lambda rng, data: _built(rng, data)[: -rng.randrange(1, 4)],
    "bytes behind": lambda rng, data: _built(rng, data) + rng.randbytes(rng.choice([1, 4, 20])),
    "zeros behind": lambda rng, data: _built(rng, data) + bytes(rng.choice([1, 4, 20])),
    "two frames": lambda rng, data: (
        _built(rng, data[: len(data) // 2]) + _built(rng, data[len(data) // 2 :])
    ),
    "an empty frame behind": lambda rng, data: _built(rng, data) + head() + _END,
    "an empty frame before": lambda rng, data: head() + _END + _built(rng, data),
    "skippable before": lambda rng, data: _skippable(rng) + _built(rng, data),
    "skippable behind": lambda rng, data: _built(rng, data) + _skippable(rng),
    "legacy": _legacy,
    "raw block": lambda rng, data: raw(data),
    "nothing": lambda rng, data: b"",
}
