"""Groups lie in the partitions in which Kafka would look for them."""

import pytest

from broker.groups.placement import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("console-consumer-12345", -1_268_398_826),
        ("polygenelubricants", -(2**31)),
        ("\N{GRINNING FACE}", 1_772_899),
    ],
)
def test_the_hash_is_java_s(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_smallest_hash_falls_into_the_first_partition() -> None:
    assert partition_of("polygenelubricants", 50) == 0


def test_a_negative_hash_counts_by_its_size() -> None:
    assert partition_of("console-consumer-12345", 50) == 1_268_398_826 % 50
