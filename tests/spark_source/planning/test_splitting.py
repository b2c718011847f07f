"""Cutting by count: nothing lost, nothing twice, no group too large."""

from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.offset_range import OffsetRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.extents import TopicRange
from spark_source.planning.splitting import records_per_task, split_ranges

A = b"a" * 16


def ranges(*sizes: int) -> list[TopicRange]:
    return [
        TopicRange("orders", OffsetRange(TopicPartition(A, number), 7, 7 + size))
        for number, size in enumerate(sizes)
        if size
    ]


RANGES = st.lists(st.integers(0, 200), max_size=8).map(lambda sizes: ranges(*sizes))


@given(RANGES, st.integers(1, 60))
def test_groups_hold_every_offset_once_and_no_more_than_allowed(
    wanted: list[TopicRange], records_max: int
) -> None:
    groups = split_ranges(wanted, records_max)

    cut = [
        (one.offsets.number, n)
        for group in groups
        for one in group
        for n in range(*one.offsets[1:])
    ]
    assert cut == [(one.offsets.number, n) for one in wanted for n in range(*one.offsets[1:])]
    for group in groups:
        assert sum(one.offsets.end - one.offsets.start for one in group) <= records_max
        assert len({one.offsets.number for one in group}) == len(group)


def test_a_range_is_cut_evenly_and_small_ones_share_a_group() -> None:
    groups = split_ranges(ranges(10, 2, 2, 2), 6)

    assert [[one.offsets.end - one.offsets.start for one in group] for group in groups] == [
        [5],
        [5],
        [2, 2, 2],
    ]


@given(RANGES, st.integers(1, 60))
def test_at_least_as_many_tasks_as_asked_for_while_there_are_records(
    wanted: list[TopicRange], tasks_min: int
) -> None:
    limit = records_per_task(wanted, 0, tasks_min, None)
    total = sum(one.offsets.end - one.offsets.start for one in wanted)

    if limit is None:
        assert total == 0
    else:
        assert len(split_ranges(wanted, limit)) >= min(tasks_min, total)


def test_tasks_are_cut_only_when_segments_do_not_give_enough() -> None:
    assert records_per_task(ranges(100), 4, 4, None) is None
    assert records_per_task(ranges(100), 1, None, None) is None
    assert records_per_task(ranges(100), 1, 4, None) == 25
    assert records_per_task(ranges(100), 4, 4, 30) == 30
    assert records_per_task(ranges(100), 1, 10, 30) == 10
