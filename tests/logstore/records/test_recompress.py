"""A batch in another codec has the same records, and every other field of its header."""

import pytest

from logstore.records.batch import CODECS, HEADER_BYTES, Codec, check_batch
from logstore.records.decode import decode_records, payload_of
from logstore.records.encode import encode_batch
from logstore.records.recompress import (
    GZIP_LEVEL,
    ULTRA_BYTES_MAX,
    TargetCodec,
    library_level,
    pack,
    packed_batch,
    packed_bytes,
)
from logstore.records.record import Record

RECORDS = [
    Record(i, 1_000 + i % 3, None if i % 2 else b"key", bytes(i) + b"v" * 99, (("h", None),))
    for i in range(200)
]


@pytest.mark.parametrize("target", CODECS)
@pytest.mark.parametrize("source", CODECS)
def test_only_length_codec_and_crc_change(source: Codec, target: Codec) -> None:
    batch = memoryview(
        encode_batch(
            RECORDS,
            base_offset=7,
            leader_epoch=3,
            compression=source,
            producer_id=99,
            producer_epoch=4,
            base_sequence=2**31 - 5,
            transactional=True,
        )
    )
    header = check_batch(batch, 0, len(batch))
    payload = payload_of(batch, header, max_bytes=1 << 20)
    packed = pack(payload, TargetCodec(target))

    stored, its_header = packed_batch(header, packed, TargetCodec(target), 1_002)

    assert check_batch(stored, 0, len(stored)) == its_header
    assert its_header.compression == target and its_header.is_transactional
    same = {"crc": 0, "batch_length": 0, "attributes": 0}
    assert its_header._replace(**same) == header._replace(**same)
    assert len(stored) == packed_bytes(packed) == its_header.size_bytes
    assert decode_records(stored, max_bytes=1 << 20) == decode_records(batch, max_bytes=1 << 20)


@pytest.mark.parametrize(
    ("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 9, 12), ("zstd", -50, 19)]
)
def test_a_level_is_that_of_the_library(codec: Codec, low: int, high: int) -> None:
    payload = b"".join(b"%d is %d\n" % (i * i % 977, i * 7919 % 4001) for i in range(20_000))
    sizes = [len(pack(payload, TargetCodec(codec, level))) for level in (low, high)]

    assert sizes[0] > sizes[1]


def test_levels_as_kafka_counts_them() -> None:
    gzip = [library_level(TargetCodec("gzip", level), 1) for level in (-1, 0, 1, 9)]

    assert gzip == [GZIP_LEVEL, GZIP_LEVEL, 1, 9]
    assert [library_level(TargetCodec("lz4", level), 1) for level in (1, 9, 17)] == [1, None, 17]
    assert library_level(TargetCodec("snappy"), 1) is None
    assert library_level(TargetCodec("zstd", -131_072), 1) == -131_072
    assert library_level(TargetCodec("zstd", 22), ULTRA_BYTES_MAX) == 22
    assert library_level(TargetCodec("zstd", 22), ULTRA_BYTES_MAX + 1) == 19
    for codec, level in (("lz4", 17), ("lz4", 1), ("zstd", 22), ("zstd", -131_072), ("gzip", 9)):
        target = TargetCodec(codec, level)  # type: ignore[arg-type]
        assert len(pack(b"x" * 1000, target)) < 1000 + HEADER_BYTES


def test_fast_is_what_takes_milliseconds_per_mb_whatever_is_packed() -> None:
    def is_fast(codec: Codec, level: int | None = None) -> bool:
        return TargetCodec(codec, level).is_fast

    assert is_fast("none") and is_fast("snappy") and is_fast("lz4", 9) and is_fast("zstd", 3)
    assert not is_fast("gzip", 1) and not is_fast("lz4", 3) and not is_fast("zstd", 4)
