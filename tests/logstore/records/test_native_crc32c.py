"""Every way of the native CRC-32C, on any processor that has it."""

import random

import pytest
from fastcrc import crc32
from hypothesis import given
from hypothesis import strategies as st

from logstore.records import native

if native.codec is None:
    pytest.skip("the native codec is not built here", allow_module_level=True)

SIZES = (0, 8, 256, 768, 1024, 1280, 4096, 12288, 13312)  # where sums begin to be made otherwise


@given(st.binary(max_size=3000), st.integers(0, 2**32 - 1), st.integers(0, 20))
def test_the_ways_agree_with_the_library(
    codec: native.Codec, data: bytes, initial: int, start: int
) -> None:
    view = memoryview(data)[start:]
    for way in range(len(codec.crc32c_ways())):
        assert codec.crc32c(view, initial, way) == crc32.iscsi(view, initial)


@pytest.mark.parametrize("size", [max(0, n + more) for n in SIZES for more in (-1, 0, 1, 70)])
def test_they_agree_where_sums_begin_to_be_made_otherwise(codec: native.Codec, size: int) -> None:
    data = random.Random(size).randbytes(size)
    for way in range(len(codec.crc32c_ways())):
        assert codec.crc32c(data, 0, way) == crc32.iscsi(data)


@pytest.mark.parametrize("arguments", [(), (b"", -1), (b"", 2**32), (b"", 0, 9), ("text",)])
def test_what_is_no_data_is_refused(codec: native.Codec, arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        codec.crc32c(*arguments)  # type: ignore[arg-type]
