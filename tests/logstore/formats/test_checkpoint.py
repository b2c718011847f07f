"""Bytes of checkpoints: a pure function of the chain, read as ever, damage noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Refused
from logstore.formats.chain_state import ChainState
from logstore.formats.checkpoint import (
    chain_state_of,
    decode_checkpoint,
    encode_checkpoint,
    front_bytes_of,
)
from logstore.formats.index_rows import row_at
from logstore.formats.partition_state import Sink
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.testing.scripted import drive
from tests.golden import samples
from tests.golden.samples import golden

GOLDEN = golden("checkpoint-1")


@pytest.mark.parametrize("name", ["checkpoint-1", "checkpoint-2", "checkpoint-1-sink"])
def test_checkpoints_are_written_as_ever(name: str) -> None:
    assert samples.SAMPLES[name]() == golden(name)


def test_a_golden_checkpoint_that_says_what_was_deleted_reads_as_ever() -> None:
    data = golden("checkpoint-2")
    front = decode_checkpoint(data)
    deleted = {TopicPartition(samples.TOPIC_ID, 1): 43}

    assert (front.seq, list(front.epoch_ranges)) == (3, [samples.key()])
    assert dict(front.deleted_below) == deleted
    resumed = chain_state_of(front, data[front.front_bytes : front.pages_at])
    assert resumed.deleted_below == deleted
    resumed.note_deleted(TopicPartition(samples.TOPIC_ID, 1), 0)  # the topic is deleted
    assert decode_checkpoint(encode_checkpoint(resumed)).deleted_below == {}


def test_a_golden_checkpoint_reads_as_ever() -> None:
    front = decode_checkpoint(GOLDEN)

    assert (front.cluster_id, front.epoch, front.broker) == (samples.CLUSTER_ID, 5, 7)
    assert (front.seq, front.from_seq, list(front.earlier)) == (2, 0, [])
    assert front.last_nonce == samples.nonce(1)
    summary = front.epoch_ranges[samples.key()]
    assert (summary.start, summary.end, summary.released) == (43, 45, False)
    (page,) = front.pages_of(samples.key())
    rows = GOLDEN[front.pages_at + page.position :][: page.byte_count]
    assert (row_at(rows, 0).base_offset, row_at(rows, 0).seq) == (43, 1)
    assert [span.size_bytes for span in front.spans] == [
        samples.opening().size_bytes,
        samples.data().size_bytes,
    ]


def test_a_golden_checkpoint_with_a_sink_reads_as_ever() -> None:
    data = golden("checkpoint-1-sink")
    front = decode_checkpoint(data)
    resumed = chain_state_of(front, data[front.front_bytes : front.pages_at])

    assert front.seq == 3
    assert resumed.epoch_ranges[samples.key()].state.sinks == {
        samples.SINK: Sink(13, 2, 3, samples.CREATED_MS + 20, 45, 49)
    }


def test_a_chain_goes_on_from_its_checkpoint_as_from_its_beginning() -> None:
    chain = samples.chain()
    front = decode_checkpoint(encode_checkpoint(chain))
    states = GOLDEN[front.front_bytes : front.pages_at]
    resumed = chain_state_of(front, states)

    assert list(resumed.checkpoints) == [2]
    assert (resumed.next_seq, resumed.last_nonce, resumed.created_ms) == (
        chain.next_seq,
        chain.last_nonce,
        chain.created_ms,
    )
    assert resumed.epoch_ranges[samples.key()].state == chain.epoch_ranges[samples.key()].state
    assert resumed.epoch_ranges[samples.key()].end == chain.epoch_ranges[samples.key()].end


def test_an_empty_chain_has_a_checkpoint_too() -> None:
    front = decode_checkpoint(encode_checkpoint(ChainState(samples.CLUSTER_ID, 9)))

    assert (front.epoch, front.seq, dict(front.epoch_ranges)) == (9, 0, {})


@given(st.integers(0, len(GOLDEN) - 1))
def test_a_checkpoint_cut_short_is_noticed(length: int) -> None:
    with pytest.raises(Corrupt):
        read_whole(GOLDEN[:length])


@given(st.binary(max_size=300))
def test_no_bytes_from_outside_break_the_decoder(data: bytes) -> None:
    with pytest.raises((Corrupt, Refused)):
        decode_checkpoint(data)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(Refused, match="format=3"):
        front_bytes_of(GOLDEN[:4] + b"\0\3" + GOLDEN[6:])


def read_whole(data: bytes) -> None:
    """Front, states and pages, as readers check them."""
    front = decode_checkpoint(data)
    chain_state_of(front, data[front.front_bytes : front.pages_at])
    for page in front.pages:
        found = data[front.pages_at + page.position :][: page.byte_count]
        drive(IndexCache().page(front, page), [found])
