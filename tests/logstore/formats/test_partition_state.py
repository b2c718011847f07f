"""Bytes of states and takes: what is encoded is decoded, damage is noticed, old bytes stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Refused
from logstore.formats.leadership_payload import (
    StateChunk,
    decode_payload,
    encode_chunks,
    encode_inline,
    join_chunks,
)
from logstore.formats.partition_state import (
    BATCHES_KEPT,
    PRODUCER_EXPIRATION_MS,
    SINK_EXPIRATION_MS,
    SLICE_PRODUCERS,
    AbortedTransaction,
    EncodedState,
    Expired,
    ExpiredSink,
    PartitionState,
    ProducedBatch,
    Producer,
    Sink,
    decode_state,
    decode_state_in_slices,
    encode_state,
    encode_state_in_slices,
    pack_producer,
)
from logstore.formats.segment import AdoptEnd
from logstore.records.crc32c import crc32c
from logstore.slices import Slices, finish
from tests.golden.samples import (
    CREATED_MS,
    SAMPLES,
    SINK,
    chunks,
    golden,
    sink_state,
    state,
)

I64 = st.integers(-(2**63), 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)

batches = st.builds(ProducedBatch, I32, I32, I64, I64, I64)
producers = st.builds(
    Producer, st.integers(-(2**15), 2**15 - 1), I64, st.lists(batches, max_size=BATCHES_KEPT)
)
HASHES = st.binary(min_size=16, max_size=16)
U32 = st.integers(0, 2**32 - 1)
old_sinks = I64.map(Sink)
sinks = st.one_of(
    old_sinks, st.tuples(I64, U32, U32, I64, I64, I64).map(lambda fields: Sink(*fields))
)
states = st.builds(
    PartitionState,
    producers=st.dictionaries(I64, producers, max_size=4).map(
        lambda found: {one: pack_producer(one, producer) for one, producer in found.items()}
    ),
    sinks=st.dictionaries(HASHES, sinks, max_size=3),
    open_transactions=st.dictionaries(I64, I64, max_size=3),
    aborted=st.lists(st.builds(AbortedTransaction, I64, I64, I64), max_size=3),
)


@given(states)
def test_a_state_that_is_encoded_is_decoded(found: PartitionState) -> None:
    assert decode_state(encode_state(found)) == found


@given(states)
def test_equal_states_give_equal_bytes_in_whatever_order_they_grew(found: PartitionState) -> None:
    turned = PartitionState(
        dict(reversed(found.producers.items())),
        dict(reversed(found.sinks.items())),
        dict(reversed(found.open_transactions.items())),
        found.aborted,
    )

    assert encode_state(turned) == encode_state(found)


@given(states, st.lists(st.tuples(st.booleans(), I64.filter(lambda one: one >= 0)), max_size=8))
def test_a_snapshot_and_its_state_go_ways_of_their_own(
    found: PartitionState, changes: list[tuple[bool, int]]
) -> None:
    apart = [decode_state(encode_state(found)), decode_state(encode_state(found))]
    shared = [found, found.snapshot()]
    for of_snapshot, producer_id in changes:
        for one in (apart[of_snapshot], shared[of_snapshot]):
            one.apply_batch(producer_id, 0, 0, 0, 0, 0, 0)
            one.drop([Expired(*min(one.producers.items()))])

    assert shared == apart


MANY = 3 * SLICE_PRODUCERS + 5


def many_producers() -> PartitionState:
    found = PartitionState()
    for number in range(MANY):
        found.apply_batch(number * 7 % MANY, 0, 0, number, number, 0, number)
    return found


def test_work_on_many_producers_is_done_in_slices() -> None:
    found = many_producers()
    now_ms = MANY // 2 + PRODUCER_EXPIRATION_MS
    results: list[EncodedState] = []

    def encode() -> Slices[None]:
        results.append((yield from encode_state_in_slices(found.snapshot(), now_ms)))

    count = 0
    for count, _ in enumerate(encode(), 1):
        found.apply_batch(MANY + count, 0, 0, 0, 0, 0, 0)  # what comes between slices is not in it
    ((parts, expired),) = results
    assert count >= 3
    assert len(expired) == MANY // 2 + 1
    late = many_producers()
    late.expire(now_ms)
    assert decode_state(b"".join(parts)) == late
    assert (
        len([*decode_state_in_slices(b"".join(parts))]) == (MANY - len(expired)) // SLICE_PRODUCERS
    )
    assert len([*late.expire_in_slices(0)]) == len(late.producers) // SLICE_PRODUCERS


@given(st.dictionaries(HASHES, old_sinks, max_size=3))
def test_a_state_without_times_of_sinks_is_of_version_1(found: dict[bytes, Sink]) -> None:
    assert encode_state(PartitionState(sinks=found))[:2] == b"\0\1"


def test_a_sink_expires_by_chain_time_and_not_before() -> None:
    found = sink_state()
    last_ms = found.sinks[SINK].last_ms
    end = AdoptEnd(SINK, 13, 3, 3, 90, 91)
    early, late = found.snapshot(), found.snapshot()
    early.apply_adopted(end, last_ms + SINK_EXPIRATION_MS - 1)
    late.apply_adopted(end, last_ms + SINK_EXPIRATION_MS)

    assert early.sinks[SINK].first_offset == 43
    assert late.sinks[SINK].first_offset == 90, "forgotten, whether or not it was dropped"
    for moment, is_there in ((SINK_EXPIRATION_MS - 1, True), (SINK_EXPIRATION_MS, False)):
        encoded = finish(encode_state_in_slices(found, last_ms + moment))
        assert (SINK in decode_state(b"".join(encoded.parts)).sinks) is is_there
        assert [type(one) for one in encoded.expired if isinstance(one, ExpiredSink)] == [
            ExpiredSink
        ] * (not is_there)
        dropped = found.snapshot()
        dropped.expire(last_ms + moment)
        assert (SINK in dropped.sinks) is is_there


def test_a_sink_that_has_written_since_is_not_dropped() -> None:
    found = sink_state()
    old = ExpiredSink(SINK, found.sinks[SINK])
    found.apply_adopted(AdoptEnd(SINK, 14, 1, 1, 47, 47), CREATED_MS + 30)
    found.drop([old])

    assert found.sinks[SINK].batch == 14


def test_a_sink_of_version_1_has_no_time_and_stays() -> None:
    found = state()
    found.expire(2**62)

    assert found.sinks == {SINK: Sink(12)}


@pytest.mark.parametrize("name", ["state-1", "state-2", "take-1-pieces"])
def test_states_are_written_as_ever(name: str) -> None:
    assert SAMPLES[name]() == golden(name)


def test_golden_states_read_as_ever() -> None:
    assert decode_state(golden("state-1")) == state()
    assert decode_state(golden("state-2")) == sink_state()
    assert decode_payload(golden("take-1-pieces")) == chunks()


@given(st.integers(0, len(golden("state-1")) - 1))
def test_a_state_cut_short_is_noticed(length: int) -> None:
    with pytest.raises(Corrupt):
        decode_state(golden("state-1")[:length])


def test_a_state_with_something_behind_it_is_noticed() -> None:
    with pytest.raises(Corrupt, match="left over"):
        decode_state(golden("state-1") + b"\0")


def test_a_newer_state_is_refused() -> None:
    with pytest.raises(Refused, match="version=3"):
        decode_state(b"\0\3" + golden("state-1")[2:])


@given(st.binary(max_size=100))
def test_no_bytes_from_outside_break_the_decoders(data: bytes) -> None:
    for decode in (decode_state, decode_payload):
        try:
            decode(data)
        except (Corrupt, Refused):
            continue


@given(st.binary(max_size=1_000))
def test_a_small_state_lies_in_its_entry(data: bytes) -> None:
    assert decode_payload(encode_inline(data)) == data


@given(st.binary(min_size=1, max_size=1_000), st.integers(1, 300))
def test_a_large_state_is_joined_from_its_pieces(data: bytes, size: int) -> None:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    named = [StateChunk(seq, 208, len(part), crc32c(part)) for seq, part in enumerate(parts)]
    found = decode_payload(encode_chunks(named))

    assert not isinstance(found, bytes)
    assert join_chunks(found, parts) == data
    with pytest.raises(Corrupt, match="checksum"):
        join_chunks(found, [*parts[:-1], parts[-1][:-1]])
    with pytest.raises(Corrupt, match="checksum"):
        join_chunks(found, [*parts[:-1], bytes([parts[-1][0] ^ 1]) + parts[-1][1:]])
