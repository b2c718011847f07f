"""CRC-32C is the one that Kafka means."""

import random

import pytest
from fastcrc import crc32
from hypothesis import given
from hypothesis import strategies as st

from logstore.records import native
from logstore.records.crc32c import crc32c

STRETCHES = (0, 8, 256, 768, 4096, 12288, 13312)  # where native sums begin to be made otherwise


def test_the_check_value_of_the_castagnoli_polynomial_is_met() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(), st.binary())
def test_a_crc_goes_on_where_another_ended(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)


def test_any_buffer_is_taken() -> None:
    data = bytearray(b"..123456789")

    assert crc32c(memoryview(data)[2:]) == crc32c(bytes(data[2:])) == 0xE3069283


@given(st.binary(max_size=3000), st.integers(0, 2**32 - 1), st.integers(0, 20))
def test_the_native_ways_agree_with_the_library(
    codec: native.Codec, data: bytes, initial: int, start: int
) -> None:
    view = memoryview(data)[start:]
    for way in range(len(codec.crc32c_ways())):
        assert codec.crc32c(view, initial, way) == crc32.iscsi(view, initial)


@pytest.mark.parametrize("size", [max(0, n + more) for n in STRETCHES for more in (-1, 0, 1, 70)])
def test_they_agree_at_every_length_of_a_stretch(codec: native.Codec, size: int) -> None:
    data = random.Random(size).randbytes(size)
    for way in range(len(codec.crc32c_ways())):
        assert codec.crc32c(data, 0, way) == crc32.iscsi(data)


@pytest.mark.parametrize("arguments", [(), (b"", -1), (b"", 2**32), (b"", 0, 9), ("text",)])
def test_what_is_no_data_is_refused(codec: native.Codec, arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        codec.crc32c(*arguments)  # type: ignore[arg-type]
