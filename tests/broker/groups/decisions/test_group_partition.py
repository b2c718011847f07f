"""Groups lie in the partitions in which Kafka would look for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.groups.decisions.group_partition import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", -(2**31)),
        ("\N{GRINNING FACE}", 1_772_899),
    ],
)
def test_the_hash_is_java_s(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_smallest_hash_falls_into_the_first_partition() -> None:
    assert partition_of("polygenelubricants", 50) == 0


@given(text=st.text("abcxyz-\N{GREEK SMALL LETTER ALPHA}", max_size=40))
def test_a_hash_is_a_polynomial_cut_to_an_int32(text: str) -> None:
    value = sum(ord(c) * 31**power for power, c in enumerate(reversed(text)))

    assert java_hash(text) % 2**32 == value % 2**32
    assert -(2**31) <= java_hash(text) < 2**31
    assert partition_of(text, 2**32) == abs(java_hash(text))
