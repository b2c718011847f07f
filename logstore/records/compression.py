"""Kafka's four codecs, with a hard cap on the decompressed size.

    gzip     members, one after the other
    snappy   raw (librdkafka, Sarama), or xerial's stream (Java, kafka-python):
                 82 "SNAPPY" 00, version u32, compatible u32, then per block: length u32, raw snappy
    lz4      frames. Java reads only frames of independent blocks, so we write those
                 (pyarrow's own frames have linked blocks):
                 04224d18 60 40 82 = magic, version 1 and independent, 64 KiB blocks, header check;
                 per block: length u32 little-endian (bit 31: stored as it is), bytes; then 00000000
    zstd     frames, with or without content size

A bomb raises when it passes the cap; until then at most the cap and one block are held (and zstd's
window, which its library limits to 128 MiB). pyarrow is imported at first use.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from logstore.records.batch import Codec, CorruptBatch, Reason
from logstore.records.crc32c import Buffer
from logstore.records.strict_frames import (
    XERIAL_HEADER,
    XERIAL_MAGIC,
    check_lz4,
    check_xerial,
    gunzip,
)

if TYPE_CHECKING:
    import pyarrow as pa

_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_LENGTH = struct.Struct(">I")
_SNAPPY_RATIO_MAX = 22  # a copy of 64 bytes takes 3
_SNAPPY_PREAMBLE_BYTES_MAX = 5

_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_LENGTH = struct.Struct("<I")
_LZ4_STORED = 1 << 31
_LZ4_END = bytes(4)

_FIRST_READ_BYTES_MIN = 64 * 1024


def is_loaded() -> bool:
    """Whether pyarrow is there: importing it takes 100 ms of CPU, and seconds on a busy machine."""
    module = sys.modules.get("pyarrow")
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def compress(
    codec: Codec, data: Buffer, *, level: int | None = None, xerial: bool = False
) -> bytes:
    """`data` in a form that every Kafka client reads. `xerial` chooses snappy's framing.

    `level` as the codec's library counts; None: its default. lz4 below 3 is its fast compressor.
    """
    import pyarrow as pa

    if codec == "none":
        return bytes(data)
    if codec == "lz4":
        return _lz4_frame(data, level)
    if codec == "snappy":
        return _xerial_stream(data) if xerial else _compressed(pa.Codec(codec), data)
    return _compressed(pa.Codec(codec, compression_level=level), data)


def _compressed(codec: pa.Codec, data: Buffer) -> bytes:
    compressed: bytes = codec.compress(data, asbytes=True)
    return compressed


def decompress(
    codec: Codec, data: Buffer, *, max_bytes: int, is_strict: bool = False
) -> Buffer | pa.Buffer:
    """The bytes that `data` stands for, at most `max_bytes`.

    `is_strict` refuses what some client could not read (`records.strict_frames`): asked of what is
    to be stored, and not of what is stored. Raises `CorruptBatch` (TOO_LARGE, BAD_PAYLOAD).
    """
    if codec == "none":
        if len(data) > max_bytes:
            raise _too_large(max_bytes)
        return data
    if codec == "snappy":
        if bytes(data[: len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
            if is_strict:
                check_xerial(data)
            return _decompress_xerial(memoryview(data), max_bytes)
        return _decompress_snappy(memoryview(data), 0, max_bytes)
    if is_strict and codec == "gzip":
        return gunzip(data, max_bytes)
    if is_strict and codec == "lz4":
        check_lz4(data)
    return _decompress_stream(codec, data, max_bytes)


def _decompress_stream(codec: Codec, data: Buffer, max_bytes: int) -> Buffer | pa.Buffer:
    """One read suffices when the payload grows less than eightfold; each next one doubles.

    A read gives less than asked at the end alone, and has seen then that the end is a right one.
    """
    import pyarrow as pa

    blocks: list[pa.Buffer] = []
    total_bytes = 0
    read_bytes = max(8 * len(data), _FIRST_READ_BYTES_MIN)
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            while True:
                asked_bytes = min(read_bytes, max_bytes + 1 - total_bytes)
                block = stream.read_buffer(asked_bytes)
                blocks.append(block)
                total_bytes += block.size
                if total_bytes > max_bytes:
                    raise _too_large(max_bytes)
                if block.size < asked_bytes:
                    break
                read_bytes *= 2
    except (OSError, pa.ArrowException) as error:
        raise CorruptBatch(Reason.BAD_PAYLOAD, total_bytes, f"codec={codec} {error}") from error
    return blocks[0] if len(blocks) == 1 else _joined(blocks, total_bytes)


def _joined(blocks: Sequence[pa.Buffer], total_bytes: int) -> pa.Buffer:
    """In memory of Arrow's pool, which keeps it for the next payload; `bytes` would be new."""
    import pyarrow as pa

    joined = pa.allocate_buffer(total_bytes)
    at = 0
    with memoryview(joined) as view:
        for block in blocks:
            view[at : at + block.size] = memoryview(block)
            at += block.size
    return joined


def _decompress_snappy(data: memoryview, at: int, max_bytes: int) -> pa.Buffer:
    """One raw block; it begins with its decompressed length, a plain varint. `at` is for errors."""
    import pyarrow as pa

    length = 0
    for i, byte in enumerate(data[:_SNAPPY_PREAMBLE_BYTES_MAX]):
        length |= (byte & 127) << 7 * i
        if byte < 128:
            break
    else:
        raise CorruptBatch(Reason.BAD_PAYLOAD, at, "codec=snappy no length")
    if length > max_bytes:
        raise _too_large(max_bytes)
    if length > _SNAPPY_RATIO_MAX * len(data):
        detail = f"codec=snappy bytes={len(data)} claim to hold {length}"
        raise CorruptBatch(Reason.BAD_PAYLOAD, at, detail)
    try:
        return pa.decompress(data, length, codec="snappy")
    except (OSError, pa.ArrowException) as error:
        raise CorruptBatch(Reason.BAD_PAYLOAD, at, f"codec=snappy {error}") from error


def _decompress_xerial(data: memoryview, max_bytes: int) -> pa.Buffer:
    blocks: list[pa.Buffer] = []
    left_bytes = max_bytes
    at = len(XERIAL_HEADER)
    while at < len(data):
        start = at + _XERIAL_LENGTH.size
        if start > len(data):
            raise CorruptBatch(Reason.BAD_PAYLOAD, at, "codec=snappy block without length")
        (length,) = _XERIAL_LENGTH.unpack_from(data, at)
        if length > len(data) - start:
            detail = f"codec=snappy block={length} bytes={len(data) - start}"
            raise CorruptBatch(Reason.BAD_PAYLOAD, at, detail)
        block = _decompress_snappy(data[start : start + length], start, left_bytes)
        blocks.append(block)
        left_bytes -= block.size
        at = start + length
    return _joined(blocks, max_bytes - left_bytes)


def _xerial_stream(data: Buffer) -> bytes:
    import pyarrow as pa

    snappy = pa.Codec("snappy")
    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(view[at : at + _XERIAL_BLOCK_BYTES], asbytes=True)
        parts += (_XERIAL_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _lz4_frame(data: Buffer, level: int | None) -> bytes:
    import pyarrow as pa

    raw = pa.Codec("lz4_raw", compression_level=level)
    view = memoryview(data)
    parts: list[Buffer] = [_LZ4_HEADER]
    for at in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[at : at + _LZ4_BLOCK_BYTES]
        block = raw.compress(plain, asbytes=True)
        if len(block) < len(plain):
            parts += (_LZ4_LENGTH.pack(len(block)), block)
        else:
            parts += (_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _too_large(max_bytes: int) -> CorruptBatch:
    return CorruptBatch(Reason.TOO_LARGE, 0, f"max_bytes={max_bytes}")
