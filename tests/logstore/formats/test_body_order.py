"""Bodies of segments that several topics share are stored by topic and partition."""

import struct
from collections.abc import Iterator, Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.body_order import BodyOrder, gather
from logstore.formats.chain_state import EpochKey
from logstore.formats.index_rows import ROW, ROW_BYTES, row_at, set_last_positions
from logstore.formats.segment import Entry, EntryKind, decode_front
from logstore.formats.segment_builder import Arena, FrozenSegment, SegmentBuilder
from logstore.records import native
from tests.golden.samples import CLUSTER_ID, nonce

CODEC = native.codec
TOPICS = [bytes(15) + b"\x01", b"\x01" + bytes(15), b"\xff" * 16]
STATE = -1

ARRIVALS = st.lists(
    st.tuples(
        st.integers(STATE, len(TOPICS) - 1), st.integers(0, 2), st.integers(0, 1), st.integers(0, 9)
    ),
    max_size=40,
)
"""Topic or a state, partition, leader epoch, length."""


@pytest.fixture(scope="module", params=["native", "pure"])
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "native" and CODEC is None:
        pytest.skip("the native codec is not built here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "codec", CODEC if request.param == "native" else None)
        yield request.param


def built(arrivals: Sequence[tuple[int, int, int, int]], arena: Arena) -> SegmentBuilder:
    builder = SegmentBuilder(arena, 0)
    for number, (topic, partition, leader_epoch, length) in enumerate(arrivals):
        data = bytes([number + 1]) * length
        if topic == STATE:
            builder.add_state_entry(
                EntryKind.TAKE,
                topic_id=TOPICS[partition],
                partition=partition,
                leader_epoch=leader_epoch,
                offset=number,
                payload=data,
            )
            continue
        position = builder.body_bytes
        builder.add_bytes(data)
        builder.add_batch_entry(
            0, partition, TOPICS[topic], leader_epoch, length, position, number, number,
            -1, -1, -1, 0, 0, 1,
        )  # fmt: skip
    return builder


def frozen(builder: SegmentBuilder) -> FrozenSegment:
    return builder.freeze(
        cluster_id=CLUSTER_ID,
        epoch=1,
        seq=1,
        broker=1,
        nonce=nonce(1),
        previous_nonce=nonce(0),
    )


def batches(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.kind == EntryKind.BATCH]


def topic_runs(entries: Sequence[Entry]) -> list[bytes]:
    return [topic for topic, _ in groupby(entry.topic_id for entry in entries)]


def moved(arrivals: Sequence[tuple[int, int, int, int]]) -> tuple[BodyOrder | None, FrozenSegment]:
    builder = built(arrivals, Arena(1000))
    order = builder.order()
    if order is not None:
        builder.move(order, Arena(1000))
    return order, frozen(builder)


@given(ARRIVALS)
def test_each_topic_and_partition_is_one_range_and_no_entry_loses_its_bytes(
    twin: str, arrivals: list[tuple[int, int, int, int]]
) -> None:
    before = decode_front(frozen(built(arrivals, Arena(1000))).front).entries
    order, segment = moved(arrivals)
    after = decode_front(segment.front).entries

    assert [one._replace(position=0) for one in after] == [
        one._replace(position=0) for one in before
    ]
    for number, entry in enumerate(after):
        stored = segment.body[entry.position : entry.position + entry.length]
        assert bytes(stored) == bytes([number + 1]) * entry.length
    runs = topic_runs(batches(before))
    if order is None:
        assert after == before
        assert len(runs) == len(set(runs)) or len({entry.topic_id for entry in before}) == 1
        return
    numbered = sorted(range(len(after)), key=lambda n: (after[n].position, after[n].length > 0))
    stored_batches = [after[n] for n in numbered if after[n].length and after[n].kind == 1]
    keys = [(one.topic_id, one.partition) for one in stored_batches]
    assert keys == sorted(keys)
    for _, mine in groupby(stored_batches, key=lambda one: (one.topic_id, one.partition)):
        offsets = [(one.leader_epoch, one.base_offset) for one in mine]
        assert offsets == sorted(offsets)


@given(ARRIVALS)
def test_rows_get_the_positions_of_their_batches(
    twin: str, arrivals: list[tuple[int, int, int, int]]
) -> None:
    order, segment = moved(arrivals)
    if order is None:
        return
    expected: dict[EpochKey, list[int]] = {}
    for one in batches(decode_front(segment.front).entries):
        key = EpochKey(one.topic_id, one.partition, one.leader_epoch)
        expected.setdefault(key, []).append(one.position)

    found: dict[EpochKey, list[int]] = {}
    for key, positions in order.batch_positions:
        count = len(expected[key])
        older = ROW.pack(7, 77, 1, 1, 0, 0, 0, 0, 0, 0, 0)
        rows = bytearray(older + ROW.pack(8, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0) * count)
        set_last_positions(rows, positions)
        assert rows[:ROW_BYTES] == older
        found[key] = [row_at(rows, number).position for number in range(1, count + 1)]
    assert found == expected


@given(ARRIVALS)
def test_the_twins_agree(arrivals: list[tuple[int, int, int, int]]) -> None:
    if CODEC is None:
        pytest.skip("the native codec is not built here")
    found = []
    for codec in (CODEC, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "codec", codec)
            found.append(moved(arrivals))

    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arrivals", "is_moved"),
    [
        ([(0, 0, 0, 5), (0, 1, 0, 5), (0, 0, 0, 5)], False),
        ([(0, 0, 0, 5), (0, 1, 0, 5), (1, 0, 0, 5)], False),
        ([(2, 0, 0, 5), (0, 0, 0, 5), (0, 1, 0, 5)], False),
        ([(0, 0, 0, 5), (1, 1, 0, 5), (0, 0, 0, 5)], True),
        ([], False),
    ],
    ids=["one topic", "two in turn", "the larger id first", "mixed", "nothing"],
)
def test_only_topics_that_are_mixed_are_moved(
    twin: str, arrivals: list[tuple[int, int, int, int]], is_moved: bool
) -> None:
    order, _ = moved(arrivals)

    assert (order is not None) == is_moved


def test_memory_that_a_moved_body_leaves_is_written_again() -> None:
    gathered, ordered = Arena(100), Arena(100)
    arrivals = [(0, 0, 0, 5), (1, 0, 0, 5), (0, 0, 0, 5)]
    first = built(arrivals, gathered)
    order = first.order()
    assert order is not None
    first.move(order, ordered)
    one = frozen(first)
    before = bytes(one.body)
    second = built([(0, 0, 0, 50)], gathered)

    assert (gathered.used, ordered.used) == (50, 15)
    assert bytes(one.body) == before
    assert bytes(frozen(second).body) == b"\x01" * 50


@pytest.mark.parametrize("pieces", [[(0, 3)], [(0, 5)], [(8, 12)], [(3, 1), (0, 4)], []])
def test_pieces_of_another_body_are_refused(twin: str, pieces: list[tuple[int, int]]) -> None:
    packed = b"".join(struct.pack("=QQ", start, end) for start, end in pieces)
    with pytest.raises(ValueError):
        gather(memoryview(bytearray(4)), memoryview(bytes(10)), packed)


def test_an_index_cut_short_is_refused() -> None:
    if CODEC is None:
        pytest.skip("the native codec is not built here")
    with pytest.raises(ValueError):
        CODEC.order_body(bytes(95))
