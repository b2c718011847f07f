"""The order of one reader: every segment range once, each partition by offset, and few chains
twice.
"""

from collections import Counter
from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.offset_range import OffsetRange
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.sequence import in_order

TOPIC = b"t" * 16


def pieces_of(partition: int, chains: list[int]) -> list[SegmentRange]:
    """Ten offsets each; seqs rise with the offsets."""
    return [
        SegmentRange(
            OffsetRange(TopicPartition(TOPIC, partition), 10 * epoch, 10 * epoch + 10),
            epoch,
            chain,
            4 * epoch,
            4 * epoch + 2,
        )
        for epoch, chain in enumerate(chains)
    ]


def test_chains_that_follow_each_other_are_read_once_each() -> None:
    segment_ranges = [segments for n in range(5) for segments in pieces_of(n, [1, 2, 3])]
    assert [seq_range.chain for seq_range in in_order(segment_ranges)] == [1, 2, 3]


def test_a_chain_waits_for_what_comes_before_it_however_old_it_is() -> None:
    seq_ranges = in_order([*pieces_of(0, [5, 3]), *pieces_of(1, [3])])
    assert [chain for chain, _ in groupby(seq_range.chain for seq_range in seq_ranges)] == [5, 3]


def test_a_circle_of_moves_is_cut_where_it_must_be() -> None:
    seq_ranges = in_order([*pieces_of(0, [5, 3]), *pieces_of(1, [3, 5])])
    assert [chain for chain, _ in groupby(seq_range.chain for seq_range in seq_ranges)] in (
        [3, 5, 3],
        [5, 3, 5],
    )


def test_seqs_that_no_piece_needs_are_not_fetched() -> None:
    segment_ranges = pieces_of(0, [1, 1, 1])
    seq_ranges = in_order([segment_ranges[0], segment_ranges[2]])
    assert [(seq_range.first_seq, seq_range.last_seq) for seq_range in seq_ranges] == [
        (0, 2),
        (8, 10),
    ]


@given(st.lists(st.lists(st.integers(1, 4), max_size=6), max_size=5))
def test_every_piece_comes_once_and_offsets_rise(partitions: list[list[int]]) -> None:
    segment_ranges = [
        segments for n, chains in enumerate(partitions) for segments in pieces_of(n, chains)
    ]
    seq_ranges = in_order(segment_ranges)

    read = [segments for seq_range in seq_ranges for segments in seq_range.segment_ranges]
    assert Counter(read) == Counter(segment_ranges)
    for seq_range in seq_ranges:
        assert all(segments.chain == seq_range.chain for segments in seq_range.segment_ranges)
        assert all(
            seq_range.first_seq <= p.first_seq <= p.last_seq <= seq_range.last_seq
            for p in seq_range.segment_ranges
        )
    for number in range(len(partitions)):
        mine = [segments.offsets.start for segments in read if segments.offsets.number == number]
        assert all(first < second for first, second in pairwise(mine))
