"""Keys go where Kafka's clients send them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_murmur2

from logstore.records.murmur2 import murmur2, partition_for_key


@given(st.binary(max_size=70))
def test_hashes_are_those_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_murmur2(key)


@pytest.mark.parametrize(
    ("key", "hash_"),  # from Kafka's own UtilsTest, signed there
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_hashes_are_those_of_kafkas_tests(key: bytes, hash_: int) -> None:
    assert murmur2(key) == hash_ % 2**32


@given(st.binary(max_size=40), st.integers(1, 10_000))
def test_partitions_are_those_of_kafka_python(key: bytes, partitions: int) -> None:
    assert partition_for_key(key, partitions) == (kafka_murmur2(key) & 0x7FFFFFFF) % partitions
