"""Which batches of an idempotent producer are appended: Kafka's rules."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.partition_state import (
    BATCHES_KEPT,
    PRODUCER_EXPIRATION_MS,
    PartitionState,
    ProducedBatch,
    unpack_producer,
)
from logstore.protocol.partitions.producers import AHEAD_MAX, Refusal, is_ahead, judge

WRAP = 2**31 - 1
PRODUCER = 42
NOW_MS = PRODUCER_EXPIRATION_MS - 1
"""Just not a day after the batches of `state_after`."""


def state_after(*batches: tuple[int, int], epoch: int = 3) -> PartitionState:
    """Batches of (base sequence, record count), offsets from 0 on."""
    state, offset = PartitionState(), 0
    for base_sequence, count in batches:
        state.apply_batch(PRODUCER, epoch, base_sequence, offset, offset + count - 1, 0, 0)
        offset += count
    return state


CASES = {
    "unknown producers begin anywhere (KIP-360)": ([], 3, 17, 1, None),
    "the next sequence": ([(0, 5)], 3, 5, 2, None),
    "a gap": ([(0, 5)], 3, 6, 1, Refusal.OUT_OF_ORDER),
    "a step back": ([(0, 5), (5, 5)], 3, 3, 1, Refusal.OUT_OF_ORDER),
    "a repeat of the last": ([(0, 5)], 3, 0, 5, 0),
    "a repeat of the fifth last": ([(n, 1) for n in range(5)], 3, 0, 1, 0),
    "a repeat of the sixth last": ([(n, 1) for n in range(6)], 3, 0, 1, Refusal.OUT_OF_ORDER),
    "the same base with another count": ([(0, 5)], 3, 0, 4, Refusal.OUT_OF_ORDER),
    "part of a batch": ([(0, 5)], 3, 2, 3, Refusal.OUT_OF_ORDER),
    "an older epoch": ([(0, 5)], 2, 5, 1, Refusal.STALE_EPOCH),
    "an older epoch's repeat": ([(0, 5)], 2, 0, 5, Refusal.STALE_EPOCH),
    "a newer epoch from 0": ([(0, 5)], 4, 0, 1, None),
    "a newer epoch from elsewhere": ([(0, 5)], 4, 5, 1, Refusal.OUT_OF_ORDER),
    "after the largest sequence comes 0": ([(WRAP, 1)], 3, 0, 1, None),
    "a batch that wraps": ([(WRAP - 1, 2)], 3, 0, 1, None),
    "sequences wrap inside a batch": ([(WRAP - 1, 5)], 3, 3, 1, None),
    "a repeat of a batch that wrapped": ([(WRAP - 1, 5)], 3, WRAP - 1, 5, 0),
    "the wrap skips 1": ([(WRAP, 1)], 3, 1, 1, Refusal.OUT_OF_ORDER),
}


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_judged_as_kafka_judges_it(name: str) -> None:
    batches, epoch, base_sequence, count, expected = CASES[name]
    verdict = judge(state_after(*batches), PRODUCER, epoch, base_sequence, count, NOW_MS)

    if isinstance(expected, int):
        assert isinstance(verdict, ProducedBatch)
        assert verdict.base_offset == expected
    else:
        assert verdict is expected


AHEAD_CASES = {  # as above: batches, epoch, base sequence → is it ahead of one still to come?
    "the first of an unknown producer": ([], 3, 0, False),
    "another of an unknown producer": ([], 3, 17, True),
    "the next sequence": ([(0, 5)], 3, 5, False),
    "a gap": ([(0, 5)], 3, 6, True),
    "a step back": ([(0, 5), (5, 5)], 3, 3, False),
    "a repeat": ([(0, 5)], 3, 0, False),
    "an older epoch": ([(0, 5)], 2, 9, False),
    "a newer epoch from 0": ([(0, 5)], 4, 0, False),
    "a newer epoch from elsewhere": ([(0, 5)], 4, 5, True),
    "the next sequence, where they wrap": ([(WRAP, 1)], 3, 0, False),
    "a gap, where they wrap": ([(WRAP, 1)], 3, 1, True),
    "a gap up to where they wrap": ([(WRAP - 5, 2)], 3, 0, True),
    "a step back across the wrap": ([(WRAP - 1, 5)], 3, WRAP - 2, False),
    "as far ahead as can be": ([(0, 5)], 3, 5 + AHEAD_MAX, True),
    "so far ahead that it is behind": ([(0, 5)], 3, 6 + AHEAD_MAX, False),
}


@pytest.mark.parametrize("name", AHEAD_CASES)
def test_a_batch_is_ahead_when_one_before_it_is_missing(name: str) -> None:
    batches, epoch, base_sequence, expected = AHEAD_CASES[name]

    assert is_ahead(state_after(*batches), PRODUCER, epoch, base_sequence, NOW_MS) is expected


@given(st.integers(0, WRAP), st.integers(1, 1000), st.integers(1, 1000))
def test_what_follows_is_taken_and_what_is_beyond_that_is_ahead(
    base_sequence: int, count: int, missing: int
) -> None:
    state = state_after((base_sequence, count))
    following = (base_sequence + count) & WRAP

    assert judge(state, PRODUCER, 3, following, 1, NOW_MS) is None
    assert not is_ahead(state, PRODUCER, 3, following, NOW_MS)
    assert is_ahead(state, PRODUCER, 3, (following + missing) & WRAP, NOW_MS)
    assert not is_ahead(state, PRODUCER, 3, (following - missing) & WRAP, NOW_MS)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30), st.data())
def test_whatever_is_repeated_the_log_holds_each_batch_once(
    counts: list[int], data: st.DataObject
) -> None:
    """A producer with five in flight that repeats any of them at any time."""
    starts = [sum(counts[:number]) for number in range(len(counts))]
    state, log = PartitionState(), list[tuple[int, int]]()
    for number, count in enumerate(counts):
        for again in data.draw(st.lists(st.integers(0, BATCHES_KEPT - 1), max_size=3)):
            known = number - 1 - again
            if known >= 0:
                verdict = judge(state, PRODUCER, 0, starts[known], counts[known], NOW_MS)
                assert isinstance(verdict, ProducedBatch)
                assert verdict.base_offset == starts[known]
        assert judge(state, PRODUCER, 0, starts[number], count, NOW_MS) is None
        offset = starts[number]
        state.apply_batch(PRODUCER, 0, offset, offset, offset + count - 1, 0, 0)
        log.append((offset, count))
    assert log == list(zip(starts, counts, strict=True))
    assert len(unpack_producer(state.producers[PRODUCER]).batches) <= BATCHES_KEPT


def test_a_producer_that_was_idle_for_a_day_begins_at_sequence_zero() -> None:
    state = state_after((0, 5))
    state.apply_batch(PRODUCER, 3, 5, 5, 5, 0, PRODUCER_EXPIRATION_MS)

    assert [
        batch.base_sequence for batch in unpack_producer(state.producers[PRODUCER]).batches
    ] == [5]


@pytest.mark.parametrize("name", [*CASES, *AHEAD_CASES])
def test_a_producer_that_was_idle_for_a_day_is_an_unknown_one(name: str) -> None:
    batches, epoch, base_sequence = (CASES.get(name) or AHEAD_CASES[name])[:3]
    idle = state_after(*batches)

    assert judge(idle, PRODUCER, epoch, base_sequence, 1, NOW_MS + 1) is None
    assert is_ahead(idle, PRODUCER, epoch, base_sequence, NOW_MS + 1) is (base_sequence != 0)

    idle.open_transactions[PRODUCER] = 0  # of which nothing is ever forgotten
    for at_ms in (NOW_MS, NOW_MS + 1):
        assert judge(idle, PRODUCER, epoch, base_sequence, 1, at_ms) == judge(
            state_after(*batches), PRODUCER, epoch, base_sequence, 1, NOW_MS
        )


Sent = tuple[int, int, int, int, int, bool]
"""Producer, epoch, base sequence, count, ms since the one before, whether in a transaction."""

SENT = st.tuples(
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(0, 6),
    st.integers(1, 2),
    st.sampled_from([0, 1, PRODUCER_EXPIRATION_MS // 2, PRODUCER_EXPIRATION_MS]),
    st.booleans(),
)


@given(st.lists(SENT, max_size=40), st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39)))
def test_what_is_appended_does_not_depend_on_when_the_idle_were_forgotten(
    sent: list[Sent], leader_forgets: set[int], successor_forgets: set[int]
) -> None:
    """A leader, and one who replays its chain from other checkpoints, decide alike of each batch.

    What is taken although it continues nothing begins its producer from the start.
    """
    leader, successor, now_ms, offset = PartitionState(), PartitionState(), 0, 0
    for number, (producer, epoch, sequence, count, later_ms, is_open) in enumerate(sent):
        now_ms += later_ms
        for state, forgets in ((leader, leader_forgets), (successor, successor_forgets)):
            if not is_open:
                state.open_transactions.pop(producer, None)
            if number in forgets:
                state.expire(now_ms)
        verdict = judge(leader, producer, epoch, sequence, count, now_ms)
        assert judge(successor, producer, epoch, sequence, count, now_ms) == verdict
        ahead = is_ahead(leader, producer, epoch, sequence, now_ms)
        assert is_ahead(successor, producer, epoch, sequence, now_ms) is ahead
        if verdict is None:
            last = offset + count - 1
            for state in (leader, successor):
                state.apply_batch(producer, epoch, sequence, offset, last, 0, now_ms)
                if is_open:
                    state.open_transactions.setdefault(producer, offset)
            kept = unpack_producer(leader.producers[producer]).batches
            for before, after in pairwise(kept):
                assert after.base_sequence == before.last_sequence + 1
            offset = last + 1
    leader.expire(now_ms)
    successor.expire(now_ms)
    assert leader == successor


def test_an_open_transaction_keeps_its_producer() -> None:
    state = state_after((0, 5))
    state.open_transactions[PRODUCER] = 0
    state.expire(PRODUCER_EXPIRATION_MS)
    assert PRODUCER in state.producers
    del state.open_transactions[PRODUCER]
    state.expire(PRODUCER_EXPIRATION_MS - 1)
    assert PRODUCER in state.producers
    state.expire(PRODUCER_EXPIRATION_MS)
    assert PRODUCER not in state.producers


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, PRODUCER_EXPIRATION_MS)), max_size=20),
    st.sets(st.integers(0, 19)),
)
def test_states_do_not_depend_on_when_the_idle_were_forgotten(
    batches: list[tuple[int, int]], forgotten_at: set[int]
) -> None:
    """A leader forgets at each checkpoint, who takes over reads on from some of them."""
    one, other, now_ms = PartitionState(), PartitionState(), 0
    for number, (producer, later_ms) in enumerate(batches):
        now_ms += later_ms
        for state in (one, other):
            state.apply_batch(producer, 0, number, number, number, 0, now_ms)
        if number in forgotten_at:
            one.expire(now_ms)
    one.expire(now_ms)
    other.expire(now_ms)
    assert one == other
