"""A partition keeps a bounded number of producers, the same ones live and at replay."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats import partition_state
from logstore.formats.partition_state import (
    PRODUCER_EXPIRATION_MS,
    PartitionState,
    decode_state,
    encode_state,
    encode_state_in_slices,
)
from logstore.protocol.partitions.producers import judge
from logstore.slices import finish

KEPT = 3


@pytest.fixture(autouse=True, scope="module")
def few_producers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_state, "PRODUCERS_MAX", KEPT)
        yield


def state_of(*producers: int) -> PartitionState:
    """One batch of each, in this order, a millisecond apart."""
    state = PartitionState()
    for offset, producer in enumerate(producers):
        state.apply_batch(producer, 0, 0, offset, offset, 0, offset)
        assert len(state.producers) <= KEPT
    return state


def test_a_partition_forgets_the_producer_that_was_idle_longest() -> None:
    assert set(state_of(1, 2, 3, 1, 4, 5).producers) == {1, 4, 5}


def test_a_forgotten_producer_goes_on_with_any_sequence() -> None:
    state = state_of(1, 2, 3, 4)
    assert judge(state, 1, 0, 1, 1, 4) is None


def test_an_open_transaction_keeps_its_producer_however_many_come() -> None:
    state = state_of(1, 2, 3)
    state.open_transactions[1] = 0
    for offset in range(3, 9):
        state.apply_batch(10 + offset, 0, 0, offset, offset, 0, offset)
    assert set(state.producers) == {1, 17, 18}
    del state.open_transactions[1]
    state.apply_batch(19, 0, 0, 9, 9, 0, 9)
    assert set(state.producers) == {17, 18, 19}


def test_older_logs_may_hold_more_producers_than_are_kept() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_state, "PRODUCERS_MAX", 10)
        stored = PartitionState()
        for offset in range(10):
            stored.apply_batch(offset, 0, 0, offset, offset, 0, offset)
    state = decode_state(encode_state(stored))
    assert len(state.producers) == 10
    state.apply_batch(10, 0, 0, 10, 10, 0, 10)
    assert set(state.producers) == {8, 9, 10}


batches = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.sampled_from([0, 1, PRODUCER_EXPIRATION_MS // 2, PRODUCER_EXPIRATION_MS]),
        st.sampled_from(["", "expire", "checkpoint", "snapshot", "open", "close"]),
    ),
    max_size=40,
)


@given(batches, st.lists(st.integers(0, 2 * PRODUCER_EXPIRATION_MS), max_size=KEPT))
def test_a_leader_and_a_replay_keep_the_same_producers(
    chain: list[tuple[int, int, str]], recovered_ms: list[int]
) -> None:
    """Whenever the leader forgot expired ones, and from whichever checkpoint the replay begins."""
    live, replayed = PartitionState(), PartitionState()
    for producer, last_ms in enumerate(recovered_ms):  # by the clock of another chain
        for state in (live, replayed):
            state.apply_batch(producer, 0, 0, producer, producer, 0, last_ms)
    now_ms = PRODUCER_EXPIRATION_MS
    for offset, (producer, later_ms, also) in enumerate(chain, len(recovered_ms)):
        now_ms += later_ms
        for state in (live, replayed):
            state.apply_batch(producer, 0, 0, offset, offset, 0, now_ms)
            if also == "open":
                state.open_transactions[producer] = offset
            elif also == "close":
                state.open_transactions.pop(min(state.open_transactions, default=-1), None)
        if also == "expire":
            live.expire(now_ms)
        elif also == "snapshot":
            live = live.snapshot()
        elif also == "checkpoint":
            live = decode_state(_checkpointed(live, now_ms))
    assert _checkpointed(live, now_ms) == _checkpointed(replayed, now_ms)


def _checkpointed(state: PartitionState, now_ms: int) -> bytes:
    return b"".join(finish(encode_state_in_slices(state.snapshot(), now_ms)).parts)
