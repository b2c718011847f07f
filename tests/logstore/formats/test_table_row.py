"""Rows of compaction: packed small, read back as they were, damage is reported."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt
from logstore.formats.compaction_row import (
    NO_TABLE,
    CompactionRow,
    CutRange,
    RunStatus,
    TopicCut,
    pack_cut,
    unpack_cut,
)
from logstore.formats.table_row import TableRow, pack_ends, unpack_ends

OFFSETS = st.integers(0, 2**62)
ENDS = st.dictionaries(st.integers(0, 100_000), OFFSETS, max_size=20)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[TopicCut, ...]:
    topics = []
    for topic_id in draw(st.lists(st.binary(min_size=16, max_size=16), max_size=3)):
        ranges = []
        for partition, start in sorted(draw(ENDS).items()):
            ranges.append(CutRange(partition, start, start + draw(st.integers(0, 2**40))))
        topics.append(TopicCut(topic_id, draw(st.integers(NO_TABLE, 2**40)), tuple(ranges)))
    return tuple(topics)


@given(ENDS)
def test_ends_come_back(ends: dict[int, int]) -> None:
    row = TableRow(version=7, ends=ends, topic="orders", on_delete="keep", gone_ms=1, swept_ms=2)

    assert TableRow.of(row.row()) == row
    assert TableRow.of(replace(row, behind_ms=3).row()).behind_ms == 3
    assert "behind_ms" not in row.row()  # as rows were before there was this attribute


@given(cuts())
def test_a_cut_comes_back(cut: tuple[TopicCut, ...]) -> None:
    row = CompactionRow(status=RunStatus.RUNNING, by="host", began_ms=5, cut=cut, outcome="so")

    assert CompactionRow.of(row.row()) == row


def test_the_packed_form_is_as_written_down() -> None:
    assert pack_ends({0: 5, 3: 200}).hex() == "000a069003"
    cut = [TopicCut(bytes(16), NO_TABLE, (CutRange(2, 10, 15),))]
    assert pack_cut(cut).hex() == "00" * 16 + "00" + "02" + "04140a"


def test_twenty_thousand_partitions_fit_a_row() -> None:
    ranges = tuple(CutRange(n, 10**12 + n, 10**12 + n + 10**6) for n in range(20_000))

    assert len(pack_cut([TopicCut(bytes(16), 3, ranges)])) < 300_000


@given(st.binary(max_size=60))
def test_what_was_not_packed_is_corrupt_or_numbers(data: bytes) -> None:
    for unpack in (unpack_ends, unpack_cut):
        try:
            unpack(data)
        except Corrupt:
            continue


def test_a_cut_short_row_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        unpack_ends(pack_ends({0: 5})[:-1])
    with pytest.raises(Corrupt):
        unpack_cut(pack_cut([TopicCut(bytes(16), 1, (CutRange(0, 1, 2),))])[:-1])
