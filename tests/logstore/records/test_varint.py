"""Varints are Kafka's: zig-zag, at most ten bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import encode_varint as kafka_encode_varint

from logstore.records.batch import CorruptBatch
from logstore.records.varint import decode_varint, encode_varint

int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-20_000, 20_000)


@given(int64s)
def test_every_64_bit_value_comes_back(value: int) -> None:
    encoded = encode_varint(value)

    assert decode_varint(b"x" + encoded + b"x", 1, 1 + len(encoded)) == (value, 1 + len(encoded))


@given(st.integers(-(2**62), 2**62))
def test_bytes_are_those_of_kafka_python(value: int) -> None:
    expected = bytearray()
    kafka_encode_varint(value, expected.append)

    assert encode_varint(value) == expected


@given(int64s)
def test_a_varint_that_passes_its_end_is_refused(value: int) -> None:
    encoded = encode_varint(value)
    for end in range(len(encoded)):
        with pytest.raises(CorruptBatch, match="passes its end"):
            decode_varint(encoded, 0, end)


@pytest.mark.parametrize("data", [b"\xff" * 10 + b"\x00", b"\x80" * 9 + b"\x02"])
def test_more_than_64_bits_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptBatch, match="longer than 64 bits"):
        decode_varint(data, 0, len(data))


def test_needless_bytes_are_read_as_kafka_does() -> None:
    assert decode_varint(b"\x82\x80\x00", 0, 3) == (1, 3)
