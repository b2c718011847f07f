"""Are compressed records framed so that every client can read them? Asked before they are stored.

A decoder that forgives more than consumers do would let a batch in at which they stop for good. So
frames are judged as the strictest consumer reads them: Java's `Lz4BlockInputStream`,
`GZIPInputStream` and snappy-java's `SnappyInputStream`, kafka-python's and librdkafka's decoders.
Blocks and checksums are then checked by the decoder itself. zstd needs nothing: Java has the same
library with the same bound for its window, and refuses what ours does.

    lz4      one frame: magic 04224d18, FLG, BD, [content size u64], check of the header, blocks,
             end mark u32 0, [content checksum u32], and nothing behind it
                 FLG  bits 7-6 version 1 | 5 independent blocks | 4 block checksums | 3 content size
                      | 2 content checksum | 1 reserved | 0 dictionary
             Java reads no linked blocks, no dictionary, and of several frames the first alone. A
             stored block of no bytes is the end mark to it, and at a packed one its records end
    gzip     one member with magic 1f8b and deflate. Of several ones librdkafka reads the first
             alone, and asks for the records behind it for ever; an empty first one ends its
             process. Arrow's decoder reads them, and zlib's format, too
    snappy   raw, or xerial's stream of version 1, compatible with 1
"""

import zlib
from struct import Struct

from logstore.records.batch import CorruptBatch, Reason
from logstore.records.crc32c import Buffer

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + bytes.fromhex("0000000100000001")

_LZ4_MAGIC = 0x184D2204
_LZ4_HEAD = Struct("<IB")
_LZ4_HEAD_BYTES = 7
_LZ4_VERSION, _LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUMS = 0xC0, 0x20, 0x10
_LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM, _LZ4_RESERVED, _LZ4_DICTIONARY = 0x08, 0x04, 0x02, 0x01
_LZ4_VERSION_1 = 0x40
_LZ4_DECIDES = _LZ4_VERSION | _LZ4_INDEPENDENT | _LZ4_RESERVED | _LZ4_DICTIONARY
_LZ4_BLOCK_BITS = 0x7FFFFFFF
_LZ4_EMPTY_BLOCKS = (0x80000000, 1)  # stored; packed: one token that stands for nothing
_SIZE_BYTES, _CHECKSUM_BYTES = 8, 4
_U32 = Struct("<I")

_GZIP_WINDOW = 31  # zlib's for "gzip alone"


def check_xerial(data: Buffer) -> None:
    """Check the header of a stream; raises `CorruptBatch` (BAD_PAYLOAD)."""
    if bytes(data[: len(XERIAL_HEADER)]) != XERIAL_HEADER:
        raise _bad(len(XERIAL_MAGIC), "codec=snappy a stream of another version than 1")


def check_lz4(data: Buffer) -> None:
    """Check all but blocks and checksums themselves; raises `CorruptBatch` (BAD_PAYLOAD)."""
    if len(data) < _LZ4_HEAD_BYTES:
        raise _bad(0, "codec=lz4 no frame of the LZ4 frame format")
    magic, flags = _LZ4_HEAD.unpack_from(data)
    if magic != _LZ4_MAGIC:
        raise _bad(0, "codec=lz4 no frame of the LZ4 frame format")
    if flags & _LZ4_DECIDES != _LZ4_VERSION_1 | _LZ4_INDEPENDENT:
        _check_flags(flags)
    at = _LZ4_HEAD_BYTES + _SIZE_BYTES * bool(flags & _LZ4_CONTENT_SIZE)
    checksum_bytes = _CHECKSUM_BYTES * bool(flags & _LZ4_BLOCK_CHECKSUMS)
    has_ended = False
    while True:
        if at + _U32.size > len(data):
            raise _bad(at, "codec=lz4 a frame without its end mark")
        block_bytes = _U32.unpack_from(data, at)[0]
        if not block_bytes:
            break
        if block_bytes in _LZ4_EMPTY_BLOCKS:
            has_ended = True
        elif has_ended:
            raise _bad(at, "codec=lz4 a block behind an empty one, where Java's consumers stop")
        at += _U32.size + (block_bytes & _LZ4_BLOCK_BITS) + checksum_bytes
    at += _U32.size + _CHECKSUM_BYTES * bool(flags & _LZ4_CONTENT_CHECKSUM)
    if at != len(data):
        raise _bad(min(at, len(data)), f"codec=lz4 frame_bytes={at} bytes={len(data)}; one frame")


def _check_flags(flags: int) -> None:
    if flags & _LZ4_VERSION != _LZ4_VERSION_1 or flags & _LZ4_RESERVED:
        raise _bad(4, f"codec=lz4 a frame of another version: flags={flags:#04x}")
    if not flags & _LZ4_INDEPENDENT:
        detail = "blocks that need those before them (linked), which Java's consumers cannot read"
        raise _bad(4, f"codec=lz4 {detail}; compress with independent blocks")
    if flags & _LZ4_DICTIONARY:
        raise _bad(4, "codec=lz4 a frame that needs a dictionary, which consumers do not have")


def gunzip(data: Buffer, max_bytes: int) -> bytes:
    """Returns the bytes of the one gzip member in `data`, at most `max_bytes`.

    Raises `CorruptBatch` (TOO_LARGE, BAD_PAYLOAD).
    """
    member = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        unpacked = member.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise _bad(0, f"codec=gzip {error}") from error
    if len(unpacked) > max_bytes:
        raise CorruptBatch(Reason.TOO_LARGE, 0, f"max_bytes={max_bytes}")
    if not member.eof:
        raise _bad(len(data), "codec=gzip a member that is cut short")
    if member.unused_data:
        at = len(data) - len(member.unused_data)
        raise _bad(
            at, "codec=gzip bytes behind the first member, where librdkafka stops; one member"
        )
    return unpacked


def _bad(at: int, detail: str) -> CorruptBatch:
    return CorruptBatch(Reason.BAD_PAYLOAD, at, detail)
