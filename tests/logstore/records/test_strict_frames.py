"""What is stored is framed so that the strictest consumer reads it; what clients send is taken."""

import gzip
import zlib
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.records.batch import CODECS, Codec, CorruptBatch, Reason
from logstore.records.compression import compress, decompress
from logstore.records.strict_frames import XERIAL_HEADER
from tests.logstore.records.test_compression import FROM_JAVA, TEXT

LARGE = bytes(range(256)) * 700
"""More than two blocks of 64 KiB."""
SMALL_LZ4: Any = compress("lz4", TEXT)
payloads = st.binary(max_size=300) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=50), st.integers(1, 5000)
)


def strictly(codec: Codec, packed: bytes, max_bytes: int = 1 << 20) -> bytes:
    return bytes(decompress(codec, memoryview(packed), max_bytes=max_bytes, is_strict=True))


def refused(codec: Codec, packed: bytes) -> str:
    with pytest.raises(CorruptBatch) as caught:
        strictly(codec, packed)
    assert caught.value.reason is Reason.BAD_PAYLOAD
    return str(caught.value)


def with_flags(frame: bytes, flags: int) -> bytes:
    return frame[:4] + bytes([flags]) + frame[5:]


@pytest.mark.parametrize(("codec", "packed"), FROM_JAVA)
def test_what_java_writes_is_taken(codec: Codec, packed: str) -> None:
    assert strictly(codec, bytes.fromhex(packed)) == TEXT


@given(st.sampled_from(CODECS), payloads)
def test_what_this_product_writes_is_taken(codec: Codec, data: bytes) -> None:
    assert strictly(codec, compress(codec, data)) == data
    assert strictly("snappy", compress("snappy", data, xerial=True)) == data


@given(payloads, st.integers(0, 9))
def test_gzip_of_any_level_is_taken_and_of_one_member_alone(data: bytes, level: int) -> None:
    packed = gzip.compress(data, level)
    two, with_empty = packed + packed, gzip.compress(b"") + packed

    assert strictly("gzip", packed) == data
    assert bytes(decompress("gzip", two, max_bytes=1 << 20)) == data + data, (
        "what is stored is read"
    )
    assert "one member" in refused("gzip", two)
    assert "one member" in refused("gzip", with_empty)


def test_linked_blocks_are_refused_and_the_error_says_what_to_do() -> None:
    linked: bytes = pa.Codec("lz4").compress(LARGE, asbytes=True)

    assert bytes(decompress("lz4", linked, max_bytes=1 << 20)) == LARGE, "what is stored is read"
    assert "compress with independent blocks" in refused("lz4", linked)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (SMALL_LZ4 + SMALL_LZ4, "one frame"),
        (SMALL_LZ4 + b"\0", "one frame"),
        (SMALL_LZ4[:-4], "end mark"),
        (SMALL_LZ4[:-1], "end mark"),
        (SMALL_LZ4[:6], "no frame"),
        (b"", "no frame"),
        (b"\x50\x2a\x4d\x18\0\0\0\0" + SMALL_LZ4, "no frame"),
        (with_flags(SMALL_LZ4, 0x61), "dictionary"),
        (with_flags(SMALL_LZ4, 0x62), "another version"),
        (with_flags(SMALL_LZ4, 0xA0), "another version"),
        (with_flags(SMALL_LZ4, 0x20), "another version"),
    ],
)
def test_what_is_not_one_frame_of_lz4_is_refused(frame: bytes, why: str) -> None:
    assert why in refused("lz4", frame)


@pytest.mark.parametrize("empty", [b"\0\0\0\x80", b"\1\0\0\0\0"], ids=["stored", "packed"])
def test_a_block_behind_an_empty_one_is_refused_since_java_stops_there(empty: bytes) -> None:
    start, rest = SMALL_LZ4[:7], SMALL_LZ4[7:]
    frame, at_the_end = start + empty + rest, start + rest[:-4] + empty + rest[-4:]

    assert bytes(decompress("lz4", frame, max_bytes=1 << 20)) == TEXT, "what is stored is read"
    assert "behind an empty one" in refused("lz4", frame)
    assert strictly("lz4", at_the_end) == TEXT


@pytest.mark.parametrize("at", [6, 8])
def test_a_frame_with_a_wrong_byte_is_refused(at: int) -> None:
    wrong = bytearray(SMALL_LZ4)
    wrong[at] ^= 0xFF
    refused("lz4", bytes(wrong))


@pytest.mark.parametrize(
    "packed",
    [
        zlib.compress(TEXT),
        zlib.compress(TEXT)[2:-4],
        gzip.compress(TEXT)[:-1],
        gzip.compress(TEXT) + b"\0",
        gzip.compress(TEXT) + zlib.compress(TEXT),
        gzip.compress(TEXT)[:-8] + bytes(8),
        gzip.compress(TEXT)[:-4] + bytes(4),
        b"\x1f\x8b\x07" + gzip.compress(TEXT)[3:],
        b"",
    ],
    ids=["zlib", "raw", "cut", "behind", "zlib behind", "CRC", "length", "method", "empty"],
)
def test_what_is_not_gzip_is_refused(packed: bytes) -> None:
    refused("gzip", packed)


SMALL_ZSTD: Any = compress("zstd", TEXT)
BARE_ZSTD = bytes.fromhex("28b52ffd0050") + (len(TEXT) << 3 | 1).to_bytes(3, "little") + TEXT
"""A window of 1 MiB, one raw block."""


@pytest.mark.parametrize(
    "frame",
    [
        SMALL_ZSTD[:-1],
        SMALL_ZSTD + SMALL_ZSTD[:-1],
        SMALL_ZSTD + bytes(9),
        SMALL_ZSTD[4:],
        BARE_ZSTD[:5] + b"\x90" + BARE_ZSTD[6:],
        BARE_ZSTD[:4] + b"\x01" + BARE_ZSTD[5:6] + b"\x07" + BARE_ZSTD[6:],
        BARE_ZSTD[:4] + b"\x04" + BARE_ZSTD[5:] + bytes(4),
        BARE_ZSTD[:4] + b"\x08" + BARE_ZSTD[5:],
    ],
    ids=["cut", "cut behind", "behind", "magic", "window", "dictionary", "checksum", "reserved"],
)
def test_what_is_not_zstd_or_needs_more_than_java_has_is_refused(frame: bytes) -> None:
    assert strictly("zstd", BARE_ZSTD) == TEXT
    refused("zstd", frame)


@pytest.mark.parametrize(
    "head",
    [
        XERIAL_HEADER[:8] + bytes(8),
        XERIAL_HEADER[:11] + b"\2" + XERIAL_HEADER[12:],
        b"\x82SNAPPY\0",
    ],
    ids=["version 0", "version 2", "cut"],
)
def test_streams_of_another_version_are_refused(head: bytes) -> None:
    body = compress("snappy", TEXT, xerial=True)[len(XERIAL_HEADER) :]
    refused("snappy", head + body if len(head) == len(XERIAL_HEADER) else head)


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(codec: Codec, data: bytes) -> None:
    with suppress(CorruptBatch):
        strictly(codec, data, 10_000)


@given(st.sampled_from(["lz4", "gzip", "snappy", "zstd"]), payloads, st.data())
def test_what_strictness_takes_is_read_alike_without_it(
    codec: Codec, data: bytes, draw: st.DataObject
) -> None:
    packed = bytearray(compress(codec, data))
    at = draw.draw(st.integers(0, len(packed) - 1))
    packed[at] = draw.draw(st.integers(0, 255))
    try:
        taken = strictly(codec, bytes(packed))
    except CorruptBatch:
        return
    assert bytes(decompress(codec, bytes(packed), max_bytes=1 << 20)) == taken


def test_what_unpacks_to_more_than_is_allowed_is_too_large() -> None:
    packed = gzip.compress(b"x" * 3_000)

    assert strictly("gzip", packed, 3_000) == b"x" * 3_000
    with pytest.raises(CorruptBatch, match="max_bytes"):
        strictly("gzip", packed, 2_999)
