"""What tables hold as work for tasks: every offset once, in parts of about a row group."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.offset_range import OffsetRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import DataFile, Snapshot
from logstore.reading.planning.table_ranges import (
    FILE_BYTES,
    WORK_UNIT_BYTES,
    TableRange,
    joined,
    table_bytes,
    table_range,
    work_units,
)
from logstore.reading.planning.task_plan import TASK_BYTES, plan_tasks
from logstore.reading.planning.tasks import Located
from tests.logstore.reading.layouts import whole_segments

NO_SEGMENTS = whole_segments(lambda *_: 0)
TOPIC = bytes(16)
MiB = 1 << 20


def data_file(low: int, high: int, size_bytes: int, name: str = "") -> DataFile:
    """A file with offsets `low` to `high`, both in it."""
    return DataFile(name or f"{low}-{high}", 0, high + 1 - low, size_bytes, low, high)


def whole(*files: DataFile) -> TableRange:
    end = max((file.max_offset for file in files), default=-1) + 1
    return TableRange(OffsetRange(TopicPartition(TOPIC, 0), 0, end), files)


@st.composite
def ranges(draw: st.DrawFn) -> TableRange:
    """A range over files that may leave holes and may overlap, as after an OPTIMIZE."""
    files = []
    at = draw(st.integers(0, 50))
    for number in range(draw(st.integers(0, 12))):
        low = max(0, at + draw(st.integers(-20, 20)))
        high = low + draw(st.integers(0, 5000))
        size = draw(st.sampled_from([100, 64 * 1024, 5 * MiB, 40 * MiB, 128 * MiB]))
        files.append(data_file(low, high, size, f"file {number}"))
        at = high + 1
    files.sort(key=lambda file: (file.min_offset, file.max_offset))
    start = draw(st.integers(0, at))
    end = draw(st.integers(start + 1, at + 10))
    wanted = [file for file in files if file.min_offset < end and file.max_offset >= start]
    return TableRange(OffsetRange(TopicPartition(TOPIC, 0), start, end), tuple(wanted))


@given(ranges())
def test_every_offset_that_a_file_may_hold_is_in_exactly_one_work_unit(one: TableRange) -> None:
    reached = one.offsets.start
    for work_unit in work_units([one]):
        part = work_unit.part
        assert part.offsets.start < part.offsets.end
        assert part.offsets.start >= reached, "out of order, or twice"
        assert not any(
            file.min_offset < part.offsets.start and file.max_offset >= reached
            for file in one.files
            if reached < part.offsets.start
        ), "a hole that a file reaches into"
        assert set(part.files) == {
            file
            for file in one.files
            if file.min_offset < part.offsets.end and file.max_offset >= part.offsets.start
        }
        reached = part.offsets.end
    assert not any(file.max_offset >= reached for file in one.files if reached < one.offsets.end)


@given(ranges())
def test_work_units_weigh_no_more_than_they_may_and_together_what_the_files_do(
    one: TableRange,
) -> None:
    found = list(work_units([one]))
    densest = sum(
        (file.size_bytes + FILE_BYTES) / (file.max_offset + 1 - file.min_offset)
        for file in one.files
    )

    assert all(work_unit.size_bytes <= WORK_UNIT_BYTES + densest for work_unit in found)
    wanted = sum(
        (file.size_bytes + FILE_BYTES)
        * (min(one.offsets.end, file.max_offset + 1) - max(one.offsets.start, file.min_offset))
        / (file.max_offset + 1 - file.min_offset)
        for file in one.files
    )
    assert abs(table_bytes([one]) - wanted) <= len(found) + 1


@given(ranges())
def test_work_units_that_follow_each_other_join_to_what_was_cut(one: TableRange) -> None:
    parts = [work_unit.part for work_unit in work_units([one])]
    together = joined(parts)

    assert sum(part.offsets.end - part.offsets.start for part in together) == sum(
        part.offsets.end - part.offsets.start for part in parts
    )
    for first, second in pairwise(together):
        assert first.offsets.end < second.offsets.start
    for part in together:
        assert len({file.path for file in part.files}) == len(part.files)


def test_a_file_without_statistics_weighs_what_it_is_in_the_range_that_wants_it() -> None:
    unknown = DataFile("x", 0, -1, 40 * MiB, 0, 2**63 - 1)

    found = list(
        work_units([TableRange(OffsetRange(TopicPartition(TOPIC, 0), 0, 1000), (unknown,))])
    )

    assert len(found) == 6
    assert found[-1].part.offsets.end == 1000


def test_a_large_table_is_shared_out_by_bytes_and_read_once_in_order() -> None:
    files = [data_file(1000 * n, 1000 * n + 999, 100 * MiB) for n in range(10)]

    tasks = plan_tasks(Located([whole(*files)], ()), NO_SEGMENTS, lambda _: (), parallelism=2)

    assert len(tasks) == 10 * 100 * MiB // TASK_BYTES + 1
    reached = 0
    for task in tasks:
        assert not task.seq_ranges
        for part in task.history:
            assert part.offsets.start == reached
            reached = part.offsets.end
        assert sum(len(part.files) for part in task.history) <= 4
    assert reached == 10_000


@pytest.mark.slow
def test_a_hundred_thousand_small_files_are_planned_in_a_moment() -> None:
    files = [data_file(10 * n, 10 * n + 9, 64 * 1024) for n in range(100_000)]
    snapshot = Snapshot(TOPIC, 7, {0: 1_000_000}, {0: files})
    part = table_range(snapshot, 0, 5, 999_999)
    assert part is not None

    tasks = plan_tasks(Located([part], ()), NO_SEGMENTS, lambda _: (), parallelism=2)

    assert sum(len(one.files) for task in tasks for one in task.history) >= 100_000
    assert (
        sum(one.offsets.end - one.offsets.start for task in tasks for one in task.history)
        == 999_994
    )


def test_a_range_is_the_table_s_as_far_as_the_table_goes() -> None:
    snapshot = Snapshot(TOPIC, 7, {0: 50, 1: 20}, {0: [data_file(0, 49, 10)]})

    assert table_range(None, 0, 0, 10) is None
    assert table_range(snapshot, 0, 50, 60) is None
    assert table_range(snapshot, 2, 0, 10) is None
    held = table_range(snapshot, 0, 10, 60)
    assert held is not None
    assert (held.offsets.start, held.offsets.end, len(held.files)) == (10, 50, 1)
    without_files = table_range(snapshot, 1, 0, 30)
    assert without_files is not None
    assert (without_files.offsets.end, without_files.files) == (20, ())
    assert list(work_units([without_files])) == []
