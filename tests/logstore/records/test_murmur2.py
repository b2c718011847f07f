"""Keys go where Kafka's clients send them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_murmur2

from logstore.records import native
from logstore.records.murmur2 import NO_KEY, hash_keys, murmur2, partition_for_key


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


@pytest.mark.parametrize("native_", [True, False], ids=["native", "pure"])
@given(
    keys=st.lists(st.none() | st.binary(max_size=40), max_size=20),
    start=st.integers(0, 20),
    count=st.integers(0, 20),
)
def test_a_column_of_keys_is_hashed_as_each_key(
    native_: bool, keys: list[bytes | None], start: int, count: int
) -> None:
    """Of slices too, which begin in the middle of a byte of validity."""
    some = pa.array(keys, pa.binary()).slice(start, count)
    with pytest.MonkeyPatch.context() as patch:
        if not native_:
            patch.setattr(native, "codec", None)
        found = hash_keys(some)

    assert found.type == pa.int32()
    assert found.to_pylist() == [
        NO_KEY if key is None else murmur2(key) & 0x7FFFFFFF for key in some.to_pylist()
    ]
