"""A chain read into memory: what is frozen of it stays as it was."""

from logstore.formats.chain_state import ChainState
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.index_rows import row_count
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.chain.walk import read_on
from logstore.testing.virtual_loop import run
from tests.logstore.protocol.built import BuiltChain, open_chain_row


def test_a_frozen_window_takes_no_row_that_comes_after_it() -> None:
    """Also of an epoch range that had none: a checkpoint is encoded while its chain goes on."""
    chain = BuiltChain()
    chain.register(open_chain_row())
    chain.add_opening()
    chain.add_take()
    state = chain.replay()
    frozen, expected = state.frozen_window(), encode_checkpoint(chain.replay())
    chain.add_batches(3)
    run(chain.runner.run(read_on(state)))
    (epoch_range,) = state.epoch_ranges.values()
    assert row_count(epoch_range.rows) == 1

    assert encode_checkpoint(frozen) == expected


def test_a_frozen_window_takes_no_note_that_comes_after_it() -> None:
    state, partition = ChainState(bytes(16), 5), TopicPartition(bytes(16), 0)
    state.note_deleted(partition, 7)
    frozen = state.frozen_window()
    expected = encode_checkpoint(frozen)
    state.note_deleted(partition, 9)

    assert encode_checkpoint(frozen) == expected
