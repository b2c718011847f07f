"""A leader forgets idle producers after its own time; what it stores suits every other leader."""

from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.partition_state import (
    PartitionState,
    decode_state,
    encode_state_in_slices,
)
from logstore.protocol.partitions.producers import judge
from logstore.slices import finish

EXPIRATION_MS = 60_000
PRODUCER = 7


def state_of_a_leader() -> PartitionState:
    return PartitionState(expiration_ms=EXPIRATION_MS)


def test_a_producer_that_was_idle_for_the_set_time_is_unknown() -> None:
    state = state_of_a_leader()
    state.apply_batch(PRODUCER, 3, 0, 0, 4, 0, 1_000)
    late_ms = 1_000 + EXPIRATION_MS
    assert judge(state, PRODUCER, 3, 9, 1, late_ms - 1) is not None, "out of order"
    assert judge(state, PRODUCER, 3, 9, 1, late_ms) is None

    kept, left_out = (
        decode_state(b"".join(finish(encode_state_in_slices(state.snapshot(), now_ms)).parts))
        for now_ms in (late_ms - 1, late_ms)
    )
    assert [*kept.producers] == [PRODUCER]
    assert not left_out.producers, "a checkpoint has it no more"
    state.expire(late_ms)
    assert not state.producers


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2 * EXPIRATION_MS), st.booleans()), max_size=30
    )
)
def test_the_next_leader_takes_what_follows_whatever_its_own_time_is(
    batches: list[tuple[int, int, bool]],
) -> None:
    """And knows each last batch, whether or not a checkpoint left older ones out."""
    leader, now_ms, next_sequence = state_of_a_leader(), 0, dict.fromkeys(range(4), 0)
    replays = [PartitionState()]
    for number, (producer, later_ms, is_checkpoint) in enumerate(batches):
        now_ms += later_ms
        sequence = next_sequence[producer]
        for state in (leader, *replays):
            assert judge(state, producer, 0, sequence, 2, now_ms) is None
            state.apply_batch(producer, 0, sequence, 2 * number, 2 * number + 1, 0, now_ms)
            assert judge(state, producer, 0, sequence, 2, now_ms) is not None, "a repeat"
        next_sequence[producer] += 2
        if is_checkpoint:
            parts = finish(encode_state_in_slices(leader.snapshot(), now_ms)).parts
            replays.append(decode_state(b"".join(parts)))
