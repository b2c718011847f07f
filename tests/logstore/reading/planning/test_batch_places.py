"""Requests for wanted batches of one object: all of them, few, and little else."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.chain_state import EpochKey, SegmentSpan
from logstore.formats.index_rows import ROW
from logstore.formats.offset_range import OffsetRange
from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.planning.batch_places import (
    GAP_BYTES_MAX,
    BatchPlaces,
    PlacedBatch,
    is_whole,
    joined,
)
from logstore.reading.planning.layout import LayoutBuilder, SegmentRead

KEY = EpochKey(bytes(16), 0, 0)
OBJECT_BYTES = 4 << 20


def batch(at: int, length: int = 100, offset: int = 0) -> PlacedBatch:
    return PlacedBatch(KEY, at, length, offset, offset + 9)


def test_neighbours_are_joined_where_the_gap_is_small() -> None:
    near, far = GAP_BYTES_MAX, GAP_BYTES_MAX + 1

    found = joined([batch(0), batch(100 + near), batch(200 + near + far)])

    assert [(one.start, one.end) for one in found] == [
        (0, 200 + near),
        (200 + near + far, 300 + near + far),
    ]


@given(st.lists(st.tuples(st.integers(0, 3 * GAP_BYTES_MAX), st.integers(61, 20_000)), max_size=40))
def test_each_batch_is_in_one_request_and_requests_are_apart(
    gaps: list[tuple[int, int]],
) -> None:
    batches, end = [], 0
    for gap, length in gaps:
        batches.append(batch(end + gap, length))
        end += gap + length

    found = joined(batches)

    assert [one for request in found for one in request.batches] == batches
    for request in found:
        for one in request.batches:
            assert request.start <= one.at and one.at + one.length <= request.end
    for before, after in pairwise(found):
        assert after.start - before.end > GAP_BYTES_MAX


def test_a_segment_that_is_wanted_almost_whole_is_fetched_whole() -> None:
    assert is_whole(joined([batch(0, OBJECT_BYTES * 9 // 10)]), OBJECT_BYTES)
    assert not is_whole(joined([batch(0, OBJECT_BYTES // 2)]), OBJECT_BYTES)


def test_places_are_packed_and_taken_apart() -> None:
    others = EpochKey(bytes(range(16)), 70_000, 2**31 - 1)
    by_seq = {
        7: [batch(0), PlacedBatch(others, 1 << 40, 2**32 - 1, 2**62, 2**62 + 5)],
        9: [],
    }

    places = BatchPlaces.packed(by_seq, [KEY, others, KEY], {8: 2**33, 10: 5})

    assert {seq: places.of(seq) for seq in (7, 9)} == by_seq
    assert [places.has(seq) for seq in (7, 8, 9)] == [True, False, True]
    assert set(places.within(8, 9).by_seq) == {9}
    assert places.within(8, 9).sizes == {8: 2**33}
    assert places.within(11, 20) == BatchPlaces()


def row(seq: int, offset: int) -> bytes:
    return ROW.pack(seq, 1_000_000, 100, 10, 0, 0, offset, offset + 9, 0, 0, 0)


@pytest.mark.parametrize(
    ("offsets", "wanted_bytes", "request_counts"),
    [
        ([0, 10, 20], [100, 100, 100], [1, 1, 1]),
        ([0, 20], [OBJECT_BYTES] * 3, [1, 1, 1]),
        ([0, 10], [OBJECT_BYTES] * 3, [1, 1, 1]),
        ([], [OBJECT_BYTES] * 3, [1, 1, 1]),
    ],
    ids=["all rows", "one is missing", "the last is missing", "none"],
)
def test_where_the_index_does_not_tell_all_segments_are_read_whole(
    offsets: list[int], wanted_bytes: list[int], request_counts: list[int]
) -> None:
    segments = SegmentRange(OffsetRange(KEY.topic_partition, 0, 30), KEY.leader_epoch, 1, 1, 3)
    builder = LayoutBuilder(1, [segments])
    builder.add_window(0, [SegmentSpan(208, OBJECT_BYTES)] * 4)
    builder.add_rows(segments, b"".join(row(1 + offset // 10, offset) for offset in offsets))

    layout = builder.layout()

    assert layout.reads == {
        seq: SegmentRead(*read)
        for seq, *read in zip((1, 2, 3), wanted_bytes, request_counts, strict=True)
    }
    is_exact = len(offsets) == 3
    assert [layout.places.has(seq) for seq in (1, 2, 3)] == [is_exact] * 3
