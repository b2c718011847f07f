"""Cutting a log into Spark tasks: everything once, in order, in few tasks of about equal weight."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.offset_range import OffsetRange
from logstore.formats.segment_ranges import SegmentRange, SplitPoint
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.planning.task_plan import (
    REQUEST_BYTES,
    TASK_BYTES,
    TASK_BYTES_MIN,
    MiB,
    plan_tasks,
    task_count,
    wanted_bytes,
)
from logstore.reading.planning.tasks import Located, ReadTask
from tests.logstore.reading.layouts import whole_segments

TOPIC = bytes(16)

Sizes = dict[tuple[int, int], int]


def segments(partition: int, epoch: int, chain: int, first: int, last: int) -> SegmentRange:
    """Ten offsets in each segment: those of segment 7 are 1000 x epoch + 70 to 79."""
    start, end = 1000 * epoch + 10 * first, 1000 * epoch + 10 * (last + 1)
    return SegmentRange(
        OffsetRange(TopicPartition(TOPIC, partition), start, end), epoch, chain, first, last
    )


def offsets_at(splits: Sequence[SplitPoint]) -> list[int]:
    assert all(split.segments.first_seq < split.seq <= split.segments.last_seq for split in splits)
    assert len(set(splits)) == len(splits)
    return [1000 * split.segments.leader_epoch + 10 * split.seq for split in splits]


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[SegmentRange], Sizes]:
    """Segment ranges of a few partitions, each in one chain after the other, and sizes of all
    segments.

    Chains come in any order, as when a partition moves to a broker that has been up for longer.
    """
    chains = draw(st.permutations(range(1, 5)))
    segment_ranges = []
    for partition in range(draw(st.integers(1, 4))):
        for epoch, chain in enumerate(chains):
            if draw(st.booleans()):
                first = draw(st.integers(1, 30))
                last = first + draw(st.integers(0, 30))
                segment_ranges.append(segments(partition, epoch, chain, first, last))
    size = st.sampled_from([200, 64 * 1024, MiB, 8 * MiB, 40 * MiB])
    sizes = {(chain, seq): draw(size) for chain in chains for seq in range(1, 64)}
    return segment_ranges, sizes


def planned(
    segment_ranges: Sequence[SegmentRange],
    sizes: Sizes,
    *,
    parallelism: int = 2,
    tasks_min: int | None = None,
) -> list[ReadTask]:
    return plan_tasks(
        Located((), segment_ranges),
        whole_segments(lambda chain, seq: sizes[chain, seq]),
        offsets_at,
        parallelism=parallelism,
        tasks_min=tasks_min,
    )


@pytest.mark.slow
@given(logs(), st.integers(1, 8), st.none() | st.integers(1, 40))
def test_every_wanted_batch_is_in_exactly_one_task(
    log: tuple[list[SegmentRange], Sizes], parallelism: int, tasks_min: int | None
) -> None:
    segment_ranges, sizes = log

    def places(each: SegmentRange) -> list[tuple[int, int, int, int]]:
        seqs = range(each.first_seq, each.last_seq + 1)
        offsets = range(each.offsets.start, each.offsets.end)
        assert [offset % 1000 // 10 for offset in offsets] == [
            seq for seq in seqs for _ in range(10)
        ]
        return [(each.offsets.number, each.leader_epoch, at % 1000 // 10, at) for at in offsets]

    wanted = Counter(place for each in segment_ranges for place in places(each))
    found: Counter[tuple[int, int, int, int]] = Counter()
    for task in planned(segment_ranges, sizes, parallelism=parallelism, tasks_min=tasks_min):
        for seq_range in task.seq_ranges:
            for each in seq_range.segment_ranges:
                assert seq_range.first_seq <= each.first_seq <= each.last_seq <= seq_range.last_seq
                found.update(places(each))

    assert found == wanted


@pytest.mark.slow
@given(logs(), st.none() | st.integers(1, 40))
def test_a_segment_is_fetched_once_and_only_if_it_is_needed(
    log: tuple[list[SegmentRange], Sizes], tasks_min: int | None
) -> None:
    segment_ranges, sizes = log
    tasks = planned(segment_ranges, sizes, tasks_min=tasks_min)
    fetched = Counter(
        (seq_range.chain, seq)
        for task in tasks
        for seq_range in task.seq_ranges
        for seq in range(seq_range.first_seq, seq_range.last_seq + 1)
    )
    needed = {
        (each.chain, seq)
        for each in segment_ranges
        for seq in range(each.first_seq, each.last_seq + 1)
    }

    assert set(fetched) == needed
    assert set(fetched.values()) <= {1}
    assert wanted_bytes(
        Located((), segment_ranges), whole_segments(lambda chain, seq: sizes[chain, seq])
    ) == sum(sizes[place] for place in needed)


@pytest.mark.slow
@given(logs(), st.none() | st.integers(1, 40))
def test_a_task_holds_each_partition_in_offset_order(
    log: tuple[list[SegmentRange], Sizes], tasks_min: int | None
) -> None:
    for task in planned(*log, tasks_min=tasks_min):
        assert task.seq_ranges
        read: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for seq_range in task.seq_ranges:
            assert seq_range.first_seq <= seq_range.last_seq
            for each in seq_range.segment_ranges:
                read[each.offsets.number].append((each.leader_epoch, seq_range.first_seq))
        for places in read.values():
            assert places == sorted(places)


@given(logs(), st.none() | st.integers(1, 40))
def test_the_offsets_of_a_partition_rise_from_task_to_task(
    log: tuple[list[SegmentRange], Sizes], tasks_min: int | None
) -> None:
    """Also where it moved to an older chain: a sink writes the tasks of a batch in their order."""
    reached: dict[int, int] = defaultdict(lambda: -1)

    for task in planned(*log, tasks_min=tasks_min):
        for seq_range in task.seq_ranges:
            for part in seq_range.segment_ranges:
                assert part.offsets.start >= reached[part.offsets.number]
                reached[part.offsets.number] = part.offsets.end


@pytest.mark.slow
@given(logs(), st.integers(1, 40))
def test_tasks_weigh_about_the_same(log: tuple[list[SegmentRange], Sizes], tasks_min: int) -> None:
    segment_ranges, sizes = log
    tasks = planned(segment_ranges, sizes, tasks_min=tasks_min)
    weights = [
        [
            sizes[seq_range.chain, seq] + REQUEST_BYTES
            for seq_range in task.seq_ranges
            for seq in range(seq_range.first_seq, seq_range.last_seq + 1)
        ]
        for task in tasks
    ]
    total = sum(map(sum, weights))
    largest = max((max(of) for of in weights), default=0)
    count = task_count(total, sum(map(len, weights)), 2, tasks_min)

    for weight in weights:
        assert sum(weight) <= total / count + largest


def test_nothing_to_read_is_no_task() -> None:
    assert planned([], {}) == []


def test_many_partitions_of_the_same_segments_are_one_task() -> None:
    segment_ranges = [segments(number, 0, 1, 1, 4) for number in range(500)]
    sizes = {(1, seq): 100_000 for seq in range(1, 5)}

    (task,) = planned(segment_ranges, sizes)

    (seq_range,) = task.seq_ranges
    assert (seq_range.first_seq, seq_range.last_seq, len(seq_range.segment_ranges)) == (1, 4, 500)


def test_small_rests_of_many_chains_share_a_task() -> None:
    segment_ranges = [segments(0, chain, chain, 1, 2) for chain in range(1, 50)]
    sizes = {(chain, seq): 5_000 for chain in range(1, 50) for seq in (1, 2)}

    (task,) = planned(segment_ranges, sizes)

    assert [seq_range.chain for seq_range in task.seq_ranges] == list(range(1, 50))


def test_segments_that_nothing_wanted_lies_in_are_passed_over() -> None:
    segment_ranges = [segments(0, 0, 1, 1, 2), segments(1, 0, 1, 900, 901)]
    sizes = {(1, seq): 1000 for seq in (1, 2, 900, 901)}

    (task,) = planned(segment_ranges, sizes)

    assert [
        (seq_range.first_seq, seq_range.last_seq, len(seq_range.segment_ranges))
        for seq_range in task.seq_ranges
    ] == [
        (1, 2, 1),
        (900, 901, 1),
    ]


@pytest.mark.parametrize(
    ("total", "segments", "parallelism", "tasks_min", "expected"),
    [
        (1000, 1, 8, None, 1),
        (TASK_BYTES_MIN, 100, 8, None, 1),
        (4 * TASK_BYTES_MIN, 100, 8, None, 4),
        (20 * TASK_BYTES_MIN, 100, 8, None, 8),
        (10 * TASK_BYTES, 1000, 2, None, 10),
        (1000, 50, 2, 7, 7),
        (1000, 5, 2, 7, 5),
    ],
    ids=[
        "tiny",
        "one share",
        "a share a core",
        "all cores",
        "by size",
        "asked",
        "too few segments",
    ],
)
def test_how_many_tasks(
    total: int, segments: int, parallelism: int, tasks_min: int | None, expected: int
) -> None:
    assert task_count(total, segments, parallelism, tasks_min) == expected
