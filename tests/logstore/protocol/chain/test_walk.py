"""Reading a chain: it ends at the first gap or seal, and what does not belong to it is corrupt."""

from collections.abc import Callable

import pytest

from logstore.errors import Corrupt, NotFound, OutcomeUnknown, Throttled
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.keys import segment_key
from logstore.formats.leadership_payload import StateChunk, encode_chunks
from logstore.formats.partition_state import PartitionState, decode_state, encode_state
from logstore.formats.segment import EntryKind, SegmentKind
from logstore.protocol.chain.walk import (
    FRONT_GUESS_BYTES,
    Gap,
    Sealed,
    get_retrying,
    list_retrying,
    read_on,
)
from logstore.records.crc32c import crc32c
from logstore.testing.scripted import drive
from logstore.testing.virtual_loop import run
from tests.golden.samples import CLUSTER_ID, EPOCH, TOPIC_ID, nonce
from tests.logstore.protocol.built import BuiltChain

KEY = EpochKey(TOPIC_ID, 0, 0)


def read(chain: BuiltChain) -> tuple[ChainState, Gap | Sealed]:
    state = ChainState(CLUSTER_ID, EPOCH)
    return state, run(chain.runner.run(read_on(state)))


def opened() -> BuiltChain:
    chain = BuiltChain()
    chain.add_opening()
    chain.add_take()
    return chain


def test_a_chain_ends_at_the_first_gap() -> None:
    chain = opened()
    chain.add_batches(2, 3)
    state, found = read(chain)

    assert found == Gap(3)
    assert (state.epoch_ranges[KEY].start, state.epoch_ranges[KEY].end) == (0, 5)


def test_what_lies_beyond_a_gap_does_not_exist() -> None:
    chain = opened()
    chain.add_batches(2)
    chain.seq += 1
    chain.add_batches(9)
    state, found = read(chain)

    assert found == Gap(3)
    assert state.epoch_ranges[KEY].end == 2


def test_what_lies_beyond_a_seal_does_not_exist() -> None:
    chain = opened()
    chain.add_seal()
    chain.add_batches(9)
    state, found = read(chain)

    assert isinstance(found, Sealed)
    assert (found.seq, state.next_seq, state.epoch_ranges[KEY].end) == (2, 2, 0)


def test_rubbish_beyond_the_end_harms_no_reader() -> None:
    chain = opened()
    chain.objects.create(segment_key(EPOCH, 3), [b"rubbish"])

    assert read(chain)[1] == Gap(2)


def test_many_segments_are_all_read() -> None:
    chain = opened()
    for count in range(1, 150):
        chain.add_batches(count)
    state, _ = read(chain)

    assert state.next_seq == 151
    assert state.epoch_ranges[KEY].end == sum(range(1, 150))
    assert len(state.spans) == 151


def spliced(chain: BuiltChain) -> None:
    chain.add(chain.frozen(chain.builder(), previous=bytes(16)))


def misplaced(chain: BuiltChain) -> None:
    chain.add(chain.frozen(chain.builder(), seq=7))


def another_opening(chain: BuiltChain) -> None:
    chain.add(chain.bare(SegmentKind.OPENING, nonce(chain.seq - 1)))


def foreign(chain: BuiltChain) -> None:
    chain.add(chain.bare(SegmentKind.DATA, nonce(chain.seq - 1), cluster_id=bytes(16)))


def foreign_seal(chain: BuiltChain) -> None:
    chain.add(chain.bare(SegmentKind.SEAL, nonce(chain.seq - 1), cluster_id=bytes(16)))


def taken_twice(chain: BuiltChain) -> None:
    chain.add_take()


def without_take(chain: BuiltChain) -> None:
    chain.add_batches(1, leader_epoch=1)


def with_a_hole(chain: BuiltChain) -> None:
    builder = chain.builder()
    chain.with_batch(builder, 1, 0, skip=3)
    chain.add(chain.frozen(builder))


def backwards(chain: BuiltChain) -> None:
    chain.add_batches(5)
    chain.offset = 2
    chain.add_batches(1)


@pytest.mark.parametrize(
    "damage, text",
    [
        (spliced, "spliced"),
        (misplaced, "does not match its key"),
        (another_opening, "opening out of place"),
        (foreign, "another cluster"),
        (foreign_seal, "does not match its key"),
        (taken_twice, "begins twice"),
        (without_take, "outside any epoch range"),
        (with_a_hole, "not dense"),
        (backwards, "not dense"),
    ],
)
def test_a_segment_that_does_not_belong_stops_the_replay(
    damage: Callable[[BuiltChain], None], text: str
) -> None:
    chain = opened()
    damage(chain)

    with pytest.raises(Corrupt, match=text):
        read(chain)


def test_a_state_in_pieces_is_read_from_the_segments_before() -> None:
    state = PartitionState()
    for producer in range(30):
        state.apply_batch(producer, 0, 0, 0, 0, 0, 0)
    data = encode_state(state)
    chain = BuiltChain()
    chain.add_opening()
    chunks = add_pieces(chain, data, 400)
    chain.add_take(payload=encode_chunks(chunks))
    replayed, _ = read(chain)

    assert replayed.epoch_ranges[KEY].state == state == decode_state(data)


def test_a_missing_piece_is_damage_and_no_gap() -> None:
    """Taken for the end of the chain, it would be sealed away in the midst of it."""
    chain = BuiltChain()
    chain.add_opening()
    chain.add_take(payload=encode_chunks([StateChunk(9, 0, 10, 0)]))

    with pytest.raises(Corrupt, match="piece of a state is missing"):
        read(chain)


def add_pieces(chain: BuiltChain, data: bytes, size: int) -> list[StateChunk]:
    chunks = []
    for at in range(0, len(data), size):
        part, builder = data[at : at + size], chain.builder()
        builder.add_state_entry(
            EntryKind.STATE, topic_id=TOPIC_ID, partition=0, leader_epoch=0, offset=0, payload=part
        )
        segment = chain.frozen(builder)
        chunks.append(StateChunk(chain.seq, len(segment.front), len(part), crc32c(part)))
        chain.add(segment)
    return chunks


def test_a_front_longer_than_one_read_is_read_whole() -> None:
    chain = opened()
    count = FRONT_GUESS_BYTES // 96 + 20
    chain.add_batches(*[1] * count)

    assert read(chain)[0].epoch_ranges[KEY].end == count


def test_a_bad_day_of_the_store_is_ridden_out() -> None:
    bad = [Throttled("503"), OutcomeUnknown("time-out")] * 10
    data, made = drive(get_retrying("key", 0, 10), [*bad, b"data"])
    keys, _ = drive(list_retrying("prefix/"), [*bad, ["prefix/key"]])

    assert data == b"data"
    assert len(made) == 21
    assert keys == ["prefix/key"]
    with pytest.raises(NotFound):
        drive(get_retrying("key", 0, 10), [NotFound("404")])
    with pytest.raises(Throttled):
        drive(get_retrying("key", 0, 10), [Throttled("503")] * 30)
    with pytest.raises(OutcomeUnknown):
        drive(list_retrying("prefix/"), [OutcomeUnknown("time-out")] * 30)
