"""CRC-32C is the one that Kafka means."""

from hypothesis import given
from hypothesis import strategies as st

from logstore.records.crc32c import crc32c


def test_the_check_value_of_the_castagnoli_polynomial_is_met() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(), st.binary())
def test_a_crc_goes_on_where_another_ended(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)


def test_any_buffer_is_taken() -> None:
    data = bytearray(b"..123456789")

    assert crc32c(memoryview(data)[2:]) == crc32c(bytes(data[2:])) == 0xE3069283
