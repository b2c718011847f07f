"""A segment that is gone while a task reads: what is below log start is left out, no more."""

from dataclasses import dataclass

import pytest

from logstore.compaction.gone import rest_of
from logstore.errors import Corrupt
from logstore.formats.offset_range import OffsetRange
from logstore.formats.partition_row import EpochEntry, PartitionRow
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.tasks import SeqRange

ID = bytes(16)
PIECE = SegmentRange(
    OffsetRange(TopicPartition(ID, 0), 0, 1000), 0, 1, 1, 10
)  # a hundred offsets a segment
RUN = SeqRange(1, 1, 10, (PIECE,))


@dataclass
class Rows:
    log_start: int | None

    def partition_row(self, key: TopicPartition) -> PartitionRow | None:
        if self.log_start is None:
            return None
        return PartitionRow(
            broker=1,
            chain=1,
            leader_epoch=0,
            log_start=self.log_start,
            epoch_ranges=(EpochEntry(0, 1, 0),),
        )

    def segment_ranges(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> list[SegmentRange]:
        offsets = OffsetRange(key, start, end)
        return [SegmentRange(offsets, 0, 1, 1 + start // 100, (end - 1) // 100 + 1)]


def test_what_is_below_log_start_now_is_left_out() -> None:
    rest = rest_of(RUN, SegmentGone(1, 3), {PIECE: 200}, Rows(350))

    assert rest is not None
    assert (rest.first_seq, rest.last_seq) == (4, 10)
    assert [segments.offsets.start for segments in rest.segment_ranges] == [350]


@pytest.mark.parametrize("rows", [Rows(None), Rows(1000)])
def test_nothing_is_left_of_a_topic_that_is_gone_or_all_below_log_start(rows: Rows) -> None:
    assert rest_of(RUN, SegmentGone(1, 3), {PIECE: 200}, rows) is None


def test_a_segment_that_is_wanted_from_there_is_missing() -> None:
    with pytest.raises(Corrupt, match="missing"):
        rest_of(RUN, SegmentGone(1, 3), {PIECE: 200}, Rows(0))


def test_a_segment_that_held_nothing_more_of_it_is_passed_over() -> None:
    other = SegmentRange(OffsetRange(TopicPartition(ID, 1), 0, 200), 0, 1, 1, 2)
    run = SeqRange(1, 1, 10, (PIECE, other))

    rest = rest_of(run, SegmentGone(1, 3), {PIECE: 300, other: 200}, Rows(0))

    assert rest is not None
    assert [segments.offsets.number for segments in rest.segment_ranges] == [0]
