"""The order of one reader: every piece once, each partition by offset, and few chains twice."""

from collections import Counter
from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.sequence import in_order

TOPIC = b"t" * 16


def pieces_of(partition: int, chains: list[int]) -> list[SegmentRange]:
    """Ten offsets each; seqs rise with the offsets."""
    return [
        SegmentRange(
            TOPIC, partition, epoch, chain, 4 * epoch, 4 * epoch + 2, 10 * epoch, 10 * epoch + 10
        )
        for epoch, chain in enumerate(chains)
    ]


def test_chains_that_follow_each_other_are_read_once_each() -> None:
    pieces = [piece for n in range(5) for piece in pieces_of(n, [1, 2, 3])]
    assert [run.chain for run in in_order(pieces)] == [1, 2, 3]


def test_a_chain_waits_for_what_comes_before_it_however_old_it_is() -> None:
    runs = in_order([*pieces_of(0, [5, 3]), *pieces_of(1, [3])])
    assert [chain for chain, _ in groupby(run.chain for run in runs)] == [5, 3]


def test_a_circle_of_moves_is_cut_where_it_must_be() -> None:
    runs = in_order([*pieces_of(0, [5, 3]), *pieces_of(1, [3, 5])])
    assert [chain for chain, _ in groupby(run.chain for run in runs)] in ([3, 5, 3], [5, 3, 5])


def test_seqs_that_no_piece_needs_are_not_fetched() -> None:
    pieces = pieces_of(0, [1, 1, 1])
    runs = in_order([pieces[0], pieces[2]])
    assert [(run.first_seq, run.last_seq) for run in runs] == [(0, 2), (8, 10)]


@given(st.lists(st.lists(st.integers(1, 4), max_size=6), max_size=5))
def test_every_piece_comes_once_and_offsets_rise(partitions: list[list[int]]) -> None:
    pieces = [piece for n, chains in enumerate(partitions) for piece in pieces_of(n, chains)]
    runs = in_order(pieces)

    read = [piece for run in runs for piece in run.pieces]
    assert Counter(read) == Counter(pieces)
    for run in runs:
        assert all(piece.chain == run.chain for piece in run.pieces)
        assert all(run.first_seq <= p.first_seq <= p.last_seq <= run.last_seq for p in run.pieces)
    for number in range(len(partitions)):
        mine = [piece.start for piece in read if piece.partition == number]
        assert all(first < second for first, second in pairwise(mine))
