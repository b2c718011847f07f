"""Which staged batches of a sink are copied: against a list of all that was ever copied."""

from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.partition_state import (
    SINK_EXPIRATION_MS,
    ExpiredSink,
    PartitionState,
    Sink,
)
from logstore.formats.segment import AdoptEnd
from logstore.formats.staging_keys import BATCH_MAX
from logstore.protocol.sinks.verdicts import (
    AHEAD_MS_MAX,
    DAY_MS,
    SINKS_MAX,
    CopyFrom,
    SinkRefusal,
    judge_manifest,
    judge_sink,
    manifest_age_ms_max,
)

NOW_MS = 1_700_000_000_000
SINK = b"s" * 16


def copied(batch: int, done: int, total: int, at_ms: int = NOW_MS) -> PartitionState:
    state = PartitionState()
    state.apply_adopted(AdoptEnd(SINK, batch, done, total, 100, 109), at_ms)
    return state


def test_an_unknown_sink_begins_with_any_batch() -> None:
    assert judge_sink(PartitionState(), SINK, 7, 3, NOW_MS) == CopyFrom(0)


def test_a_batch_that_is_here_is_not_copied_again() -> None:
    state = copied(7, 3, 3)
    last = Sink(7, 3, 3, NOW_MS, 100, 110)

    assert judge_sink(state, SINK, 7, 3, NOW_MS) == last
    assert judge_sink(state, SINK, 6, 3, NOW_MS) == last, "a delayed request"
    assert judge_sink(state, SINK, 8, 1, NOW_MS) == CopyFrom(0)


def test_a_batch_that_is_here_in_part_goes_on_behind_that() -> None:
    state = copied(7, 2, 3)

    assert judge_sink(state, SINK, 7, 3, NOW_MS) == CopyFrom(2)
    assert judge_sink(state, SINK, 7, 4, NOW_MS) is SinkRefusal.OTHER_BATCHES
    assert judge_sink(state, SINK, 8, 1, NOW_MS) is SinkRefusal.UNFINISHED
    assert isinstance(judge_sink(state, SINK, 6, 1, NOW_MS), Sink)


def test_a_snapshot_of_the_state_keeps_the_sinks_as_they_were() -> None:
    state = copied(7, 2, 2)
    frozen = [state.snapshot()]
    state.apply_adopted(AdoptEnd(SINK, 8, 1, 3, 110, 119), NOW_MS)
    frozen.append(state.snapshot())
    state.drop(ExpiredSink(SINK, one) for one in [*state.sinks.values()])

    assert [one.sinks[SINK].batch for one in frozen] == [7, 8]
    assert state.sinks == {}


def test_a_sink_too_many_is_refused_until_others_have_expired() -> None:
    state = PartitionState()
    for number in range(SINKS_MAX):
        end = AdoptEnd(number.to_bytes(16, "big"), 0, 1, 1, number, number)
        state.apply_adopted(end, NOW_MS + (number > 0))
    last_ms = NOW_MS + SINK_EXPIRATION_MS

    assert judge_sink(state, SINK, 0, 1, last_ms - 1) is SinkRefusal.TOO_MANY
    assert judge_sink(state, SINK, 0, 1, last_ms) == CopyFrom(0)
    assert judge_sink(state, bytes(16), 1, 1, last_ms - 1) == CopyFrom(0), "a known one goes on"


@given(
    st.sampled_from([7, BATCH_MAX]),
    st.integers(-AHEAD_MS_MAX * 2, manifest_age_ms_max(7) * 2),
    st.integers(0, 3 * SINK_EXPIRATION_MS),
)
def test_no_manifest_is_accepted_once_its_sink_may_be_forgotten(
    batch: int, age_ms: int, later_ms: int
) -> None:
    """`age_ms`: of the manifest when it was copied; the request comes again `later_ms` after."""
    manifest_ms = NOW_MS - age_ms
    if judge_manifest(batch, manifest_ms, NOW_MS) is not None:
        return
    state = copied(batch, 3, 3)
    again_ms = NOW_MS + later_ms

    is_refused = judge_manifest(batch, manifest_ms, again_ms) is SinkRefusal.TOO_OLD
    assert is_refused or isinstance(judge_sink(state, SINK, batch, 3, again_ms), Sink)


def test_a_manifest_has_four_weeks() -> None:
    assert judge_manifest(7, NOW_MS, NOW_MS + 28 * DAY_MS) is None
    assert judge_manifest(7, NOW_MS, NOW_MS + 28 * DAY_MS + 1) is SinkRefusal.TOO_OLD
    assert judge_manifest(7, NOW_MS + DAY_MS, NOW_MS) is None
    assert judge_manifest(7, NOW_MS + DAY_MS + 1, NOW_MS) is SinkRefusal.AHEAD


def test_the_manifest_of_a_single_batch_write_has_a_day_and_its_sink_three() -> None:
    state = copied(BATCH_MAX, 3, 3)

    assert judge_manifest(BATCH_MAX, NOW_MS, NOW_MS + DAY_MS) is None
    assert judge_manifest(BATCH_MAX, NOW_MS, NOW_MS + DAY_MS + 1) is SinkRefusal.TOO_OLD
    assert state.live_sink(SINK, NOW_MS + 3 * DAY_MS - 1) is not None
    assert state.live_sink(SINK, NOW_MS + 3 * DAY_MS) is None


steps = st.lists(
    st.tuples(
        st.integers(0, 4),  # batch
        st.integers(1, 3),  # record batches that one segment holds
        st.booleans(),  # all parts, or only the next one
        st.integers(0, DAY_MS),
    ),
    max_size=30,
)
BATCHES = {number: number % 3 + 1 for number in range(5)}
"""Record batches of each batch of the sink."""


@given(steps)
def test_each_record_batch_is_copied_once_and_in_order(
    attempts: list[tuple[int, int, bool, int]],
) -> None:
    state, chain_ms, stored = PartitionState(), NOW_MS, list[tuple[int, int]]()
    for batch, room, is_whole, pause_ms in attempts:
        chain_ms += pause_ms
        while True:
            verdict = judge_sink(state, SINK, batch, BATCHES[batch], chain_ms)
            if not isinstance(verdict, CopyFrom):
                break
            done = min(verdict.batches_done + room, BATCHES[batch])
            first = len(stored)
            stored += [(batch, number) for number in range(verdict.batches_done, done)]
            end = AdoptEnd(SINK, batch, done, BATCHES[batch], first, len(stored) - 1)
            state.apply_adopted(end, chain_ms)
            if not is_whole:
                break
    assert stored == sorted(set(stored))
    complete = {batch for batch, _ in stored} - {state.sinks[SINK].batch if stored else -1}
    for batch in complete:
        assert [number for one, number in stored if one == batch] == [*range(BATCHES[batch])]
