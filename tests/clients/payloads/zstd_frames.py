"""zstd frames as other encoders write them, and frames that break one rule. Seeded, pure.

RFC 8878: magic 28b52ffd, descriptor, [window: exponent << 3 | eighths, above 2**10 bytes],
[dictionary id], [content size], blocks (u24: last | type << 1 | size << 3; 0 raw, 1 one byte
repeated, 2 packed, 3 reserved), [the lower half of xxHash's 64 bits].

    descriptor   bits 7-6 size of the content size | 5 one segment, no window | 4 unused
                      | 3 reserved | 2 checksum | 1-0 size of the dictionary id
"""

import random
import struct
from collections.abc import Callable, Mapping

import zstandard

_MAGIC = bytes.fromhex("28b52ffd")
_RAW, _RUN, _RESERVED = 0, 1, 3
_BLOCK_BYTES = 1 << 17


def encoded(rng: random.Random, data: bytes) -> bytes:
    """By libzstd, of any level and window that every consumer reads."""
    level = rng.choice([-5, 1, 3, 3, 9, 19])
    longest = {"window_log": rng.choice([10, 17, 20, 24, 27]), "enable_ldm": True}
    options = longest if rng.random() < 0.3 else {}
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        write_checksum=rng.random() < 0.5,
        write_content_size=rng.random() < 0.5,
        **options,
    )
    packer = zstandard.ZstdCompressor(compression_params=parameters)
    if rng.random() < 0.5:
        return packer.compress(data)
    packing = packer.compressobj()
    half = len(data) // 2
    flush = packing.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) if rng.random() < 0.5 else b""
    return packing.compress(data[:half]) + flush + packing.compress(data[half:]) + packing.flush()


def head(
    window: int = 0x50,
    *,
    descriptor: int = 0,
    dictionary: bytes = b"",
    content: bytes = b"",
) -> bytes:
    windows = b"" if descriptor & 32 else bytes([window])
    return _MAGIC + bytes([descriptor]) + windows + dictionary + content


def block(
    data: bytes, kind: int = _RAW, *, is_last: bool = False, size: int | None = None
) -> bytes:
    size = len(data) if size is None else size
    return struct.pack("<I", is_last | kind << 1 | size << 3)[:3] + data


def blocks(rng: random.Random, data: bytes) -> bytes:
    """Raw ones; runs of one byte as such."""
    step = rng.choice([1000, 1000, _BLOCK_BYTES])
    parts = []
    for at in range(0, len(data), step):
        piece = data[at : at + step]
        is_last = at + step >= len(data)
        if len(set(piece)) == 1:
            parts.append(block(piece[:1], _RUN, is_last=is_last, size=len(piece)))
        else:
            parts.append(block(piece, is_last=is_last))
    return b"".join(parts)


def _of_window(rng: random.Random, data: bytes) -> bytes:
    """Up to 2**41 bytes; 2**27 are the most that is read."""
    exponent = rng.choice([*range(18), 16, 17, 17, 18, 21, 31])
    return head(exponent << 3 | rng.choice([0, 0, 1, 7])) + blocks(rng, data)


def _one_segment(rng: random.Random, data: bytes, error: int = 0) -> bytes:
    content = struct.pack("<Q", max(len(data) + error, 0))
    return head(descriptor=0xE0, content=content) + blocks(rng, data)


def _sized(rng: random.Random, data: bytes, error: int) -> bytes:
    content = struct.pack("<Q", len(data) + error)
    return head(descriptor=0xC0, content=content) + blocks(rng, data)


def _checked(rng: random.Random, data: bytes, error: int) -> bytes:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    (total,) = struct.unpack("<I", packed[-4:])
    return packed[:-4] + struct.pack("<I", (total + error) & 0xFFFFFFFF)


def _with_dictionary(rng: random.Random, data: bytes) -> bytes:
    code, size = rng.choice([(1, 1), (2, 2), (3, 4)])
    number = rng.choice([bytes(size), b"\7" * size])
    return head(descriptor=code, dictionary=number) + blocks(rng, data)


def _needs_dictionary(rng: random.Random, data: bytes) -> bytes:
    words = zstandard.ZstdCompressionDict(data[: len(data) // 2] + rng.randbytes(30))
    return zstandard.ZstdCompressor(dict_data=words).compress(data)


def _frames(rng: random.Random, data: bytes) -> bytes:
    half = len(data) // 2
    return encoded(rng, data[:half]) + encoded(rng, data[half:])


def skippable(rng: random.Random) -> bytes:
    filling = rng.randbytes(rng.choice([0, 1, 9, 40_000]))
    magic = struct.pack("<I", 0x184D2A50 + rng.randrange(16))
    return magic + struct.pack("<I", len(filling)) + filling


def _magicless(rng: random.Random, data: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(format=zstandard.FORMAT_ZSTD1_MAGICLESS)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


def _broken_block(rng: random.Random, data: bytes) -> bytes:
    extra = rng.choice(
        [
            block(b"", _RESERVED),
            block(b"", _RUN, size=5),
            block(b"\0" * (_BLOCK_BYTES + 1)),
            block(b"\0\0\0", 2),
            block(b"", size=(1 << 21) - 1),
        ]
    )
    return head() + extra + blocks(rng, data)


FORMS: Mapping[str, Callable[[random.Random, bytes], bytes]] = {
    "of libzstd": encoded,
    "raw blocks": lambda rng, data: head() + blocks(rng, data),
    "any window": _of_window,
    "one segment": _one_segment,
    "content size": lambda rng, data: _sized(rng, data, 0),
    "a checksum": lambda rng, data: _checked(rng, data, 0),
    "an empty block": lambda rng, data: head() + block(b"") + blocks(rng, data),
    "an empty last block": lambda rng, data: (
        head() + block(data[: 1 << 17]) + block(b"", is_last=True)
    ),
    "several frames": _frames,
    "an empty frame behind": lambda rng, data: encoded(rng, data) + encoded(rng, b""),
    "an empty frame before": lambda rng, data: encoded(rng, b"") + encoded(rng, data),
    "skippable before": lambda rng, data: skippable(rng) + encoded(rng, data),
    "skippable behind": lambda rng, data: encoded(rng, data) + skippable(rng),
    "skippable between": lambda rng, data: (
        encoded(rng, data[:9]) + skippable(rng) + encoded(rng, data[9:])
    ),
    "skippable alone": lambda rng, data: skippable(rng),
    "skippable cut behind": lambda rng, data: (
        encoded(rng, data) + (skippable(rng) + b"x" * 9)[: rng.randrange(1, 9)]
    ),
    "a dictionary id": _with_dictionary,
    "a dictionary": _needs_dictionary,
    "no magic": _magicless,
    "a legacy magic": lambda rng, data: bytes([0x27 - rng.randrange(6)]) + encoded(rng, data)[1:],
    "a wrong checksum": lambda rng, data: _checked(rng, data, rng.choice([1, -7])),
    "a checksum cut": lambda rng, data: _checked(rng, data, 0)[: -rng.randrange(1, 5)],
    "a wrong content size": lambda rng, data: _sized(rng, data, rng.choice([-1, 1, 1 << 40])),
    "one segment of another size": lambda rng, data: _one_segment(
        rng, data, rng.choice([-1, 1, 900])
    ),
    "the reserved bit": lambda rng, data: head(descriptor=8) + blocks(rng, data),
    "the unused bit": lambda rng, data: head(descriptor=16) + blocks(rng, data),
    "a block that is no block": _broken_block,
    "no last block": lambda rng, data: head() + block(data[: 1 << 17]),
    "a block behind the last": lambda rng, data: (
        head() + blocks(rng, data) + block(b"x", is_last=True)
    ),
    "bytes behind": lambda rng, data: (
        encoded(rng, data) + rng.randbytes(rng.choice([1, 2, 3, 4, 5, 9]))
    ),
    "zeros behind": lambda rng, data: encoded(rng, data) + bytes(rng.choice([1, 2, 3, 4, 5, 9])),
    "nothing": lambda rng, data: b"",
}
