"""Every codec in every framing that clients send, and no more bytes than allowed."""

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.records.batch import CODECS, Codec, CorruptBatch, Reason
from logstore.records.compression import compress, decompress

TEXT = (b"records " * 13)[:100]

# What Java's libraries make of TEXT: java.util.zip, snappy-java, lz4-java and zstd-jni streams.
FROM_JAVA: list[tuple[Codec, str]] = [
    ("gzip", "1f8b08000000000000ff2b4a4dce2f4a295628a2210d000c87ff1364000000"),
    (
        "snappy",
        "82534e4150505900000000010000000100000010641c7265636f72647320fe08006e0800",
    ),
    ("snappy", "641c7265636f72647320fe08006e0800"),
    ("lz4", "04224d18604082120000008f7265636f7264732008004450207265636f00000000"),
    ("zstd", "28b52ffd00587d0000407265636f726473200100b9a97001"),
]

CONCATENABLE: list[Codec] = ["gzip", "lz4", "zstd"]
REAL_CODECS = CODECS[1:]
large_or_small = st.binary(max_size=300) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=50), st.integers(1, 5000)
)


@given(st.sampled_from(CODECS), large_or_small)
def test_every_codec_gives_back_what_it_took(codec: Codec, data: bytes) -> None:
    packed = compress(codec, memoryview(data))

    assert bytes(decompress(codec, packed, max_bytes=len(data))) == data


@given(large_or_small)
def test_xerial_framing_gives_back_what_it_took(data: bytes) -> None:
    packed = compress("snappy", data, xerial=True)

    assert bytes(decompress("snappy", packed, max_bytes=len(data))) == data


@pytest.mark.parametrize(("codec", "packed"), FROM_JAVA)
def test_what_java_writes_is_read(codec: Codec, packed: str) -> None:
    assert bytes(decompress(codec, memoryview(bytes.fromhex(packed)), max_bytes=100)) == TEXT


def test_lz4_frames_are_those_of_javas_library_which_reads_no_others() -> None:
    assert compress("lz4", TEXT).hex() == FROM_JAVA[3][1]


def test_lz4_stores_blocks_that_do_not_shrink_as_they_are() -> None:
    data = bytes(range(256))
    packed = compress("lz4", data)

    assert data in packed
    assert bytes(decompress("lz4", packed, max_bytes=256)) == data


@pytest.mark.parametrize("codec", CONCATENABLE)
def test_members_one_after_the_other_are_one_payload(codec: Codec) -> None:
    packed = compress(codec, TEXT) + compress(codec, b"") + compress(codec, TEXT)

    assert bytes(decompress(codec, packed, max_bytes=200)) == TEXT + TEXT


def test_zstd_without_content_size_is_read() -> None:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(3000):
            stream.write(TEXT)

    assert bytes(decompress("zstd", sink.getvalue(), max_bytes=300_000)) == TEXT * 3000


def reason_of(codec: Codec, packed: bytes, max_bytes: int) -> Reason:
    with pytest.raises(CorruptBatch) as caught:
        decompress(codec, packed, max_bytes=max_bytes)
    return caught.value.reason


@pytest.mark.parametrize("codec", CODECS)
def test_one_byte_more_than_allowed_is_refused(codec: Codec) -> None:
    assert reason_of(codec, compress(codec, TEXT), 99) is Reason.TOO_LARGE


OPEN_A_BOMB = """
import sys
import pyarrow
from logstore.records.batch import CorruptBatch
from logstore.records.compression import decompress
try:
    decompress(sys.argv[1], sys.stdin.buffer.read(), max_bytes=1 << 20)
except CorruptBatch as fault:
    print(fault.reason.name, pyarrow.default_memory_pool().max_memory())
"""


@pytest.mark.slow
@pytest.mark.parametrize("codec", CONCATENABLE)
def test_a_bomb_is_refused_before_it_fills_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    command = [sys.executable, "-c", OPEN_A_BOMB, codec]
    done = subprocess.run(command, input=bomb, capture_output=True, check=True)
    reason, peak_bytes = done.stdout.split()

    assert len(bomb) < 1 << 20
    assert reason == b"TOO_LARGE"
    assert int(peak_bytes) < 4 << 20


@pytest.mark.parametrize("xerial", [False, True])
def test_a_snappy_bomb_is_refused(xerial: bool) -> None:
    bomb = compress("snappy", bytes(8 << 20), xerial=xerial)

    assert reason_of("snappy", bomb, 1 << 20) is Reason.TOO_LARGE


def test_snappy_that_claims_more_than_its_bytes_can_hold_is_refused_unallocated() -> None:
    claim = b"\xff\xff\xff\x1f" + b"x" * 20

    with pytest.raises(CorruptBatch, match="claim to hold 67108863"):
        decompress("snappy", claim, max_bytes=1 << 30)


def test_an_xerial_block_that_claims_more_bytes_than_follow_is_refused() -> None:
    packed = bytearray(bytes.fromhex(FROM_JAVA[1][1]))
    packed[19] += 1

    assert reason_of("snappy", bytes(packed), 1000) is Reason.BAD_PAYLOAD


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_truncation_is_noticed_at_every_byte(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for end in range(1, len(packed)):
        assert reason_of(codec, packed[:end], 1000) is Reason.BAD_PAYLOAD


def test_truncated_xerial_never_passes_for_the_whole() -> None:
    data = TEXT * 500
    packed = compress("snappy", data, xerial=True)
    for end in range(8, len(packed)):
        try:
            assert bytes(decompress("snappy", packed[:end], max_bytes=1 << 20)) != data
        except CorruptBatch as fault:
            assert fault.reason is Reason.BAD_PAYLOAD


@pytest.mark.parametrize("codec", CONCATENABLE)
def test_bytes_behind_the_last_member_are_refused(codec: Codec) -> None:
    assert reason_of(codec, compress(codec, TEXT) + b"garbage!", 1000) is Reason.BAD_PAYLOAD


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_any_bytes_decompress_or_raise_a_declared_error(codec: Codec, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, max_bytes=1000)) <= 1000
    except CorruptBatch as fault:
        assert fault.reason in (Reason.BAD_PAYLOAD, Reason.TOO_LARGE)
