"""Keys go where Kafka's clients send them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_murmur2

from logstore.errors import Invalid
from logstore.records.murmur2 import murmur2, partition_for_key, partitions_for_keys

pytestmark = pytest.mark.usefixtures("twin")


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


@given(st.lists(st.none() | st.binary(max_size=20)), st.integers(0, 5), st.integers(1, 10_000))
def test_keys_of_a_column_go_where_each_goes_alone(
    keys: list[bytes | None], start: int, partitions: int
) -> None:
    column = pa.array(keys, pa.binary()).slice(start)
    found = partitions_for_keys(column, partitions)

    assert found.type == pa.int32()
    found.validate(full=True)
    assert found.to_pylist() == [
        None if key is None else partition_for_key(key, partitions) for key in keys[start:]
    ]


@pytest.mark.parametrize("partitions", [0, -1, 2**31])
def test_a_topic_has_partitions(partitions: int) -> None:
    with pytest.raises(Invalid, match="partitions out of range"):
        partitions_for_keys(pa.array([b"k"]), partitions)
