"""Answers packed by hand are byte for byte what the generated codec makes of the same outcomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.answers.leader_hint import Hint
from broker.answers.produce_bytes import (
    API,
    PartitionOutcome,
    TopicOutcome,
    encode_produce_frame,
    produce_response_in_slices,
)
from logstore.slices import finish
from logstore.wire.framing.apis import encode_frame

INT64 = st.integers(-(2**63), 2**63 - 1)
outcomes = st.builds(
    PartitionOutcome,
    st.integers(0, 2**31 - 1),
    st.just(0),
    INT64,
    INT64,
    INT64,
    st.none(),
    st.just(()),
    st.none(),
)
hints = st.builds(
    Hint,
    st.integers(0, 9),
    st.integers(0, 9),
    st.text(max_size=9),
    st.integers(0, 65_535),
    st.none() | st.text(max_size=9),
)
failures = st.builds(
    PartitionOutcome,
    st.integers(0, 9),
    st.sampled_from([2, 10, 87]),
    st.just(-1),
    st.just(-1),
    st.just(-1),
    st.none() | st.text(max_size=20),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
    st.none() | hints,
)
names = st.text("abcdefghijklmnopqrstuvwxyz._-", min_size=1, max_size=249)


@pytest.mark.slow
@pytest.mark.parametrize("version", range(API.version_min, API.version_max + 1))
@given(
    topics=st.lists(
        st.builds(
            TopicOutcome,
            names,
            st.binary(min_size=16, max_size=16),
            st.lists(outcomes, max_size=9) | st.lists(outcomes | failures, max_size=4),
        ),
        max_size=3,
    )
)
def test_bytes_are_those_of_the_generated_codec(version: int, topics: list[TopicOutcome]) -> None:
    generated = encode_frame(77, API, version, finish(produce_response_in_slices(topics)))

    assert b"".join(encode_produce_frame(77, version, topics)) == b"".join(generated)


@pytest.mark.slow
@pytest.mark.parametrize("version", range(API.version_min, API.version_max + 1))
def test_long_names_and_many_partitions_fit_as_well(version: int) -> None:
    many = [PartitionOutcome(i, 0, i, -1, 0) for i in range(200)]
    topics = [TopicOutcome("n" * 249, bytes(16), many)] * 150
    generated = encode_frame(1, API, version, finish(produce_response_in_slices(topics)))

    assert b"".join(encode_produce_frame(1, version, topics)) == b"".join(generated)
