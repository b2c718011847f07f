"""What of a partition is cleaned, when, and which files are written again."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.compaction.decisions.clean_rules import (
    CleanLimits,
    CleanRange,
    CleanRules,
    Unit,
    UnitCounts,
    clean_range,
    is_due,
    most_dirty,
    neighbours_of,
    overdue_ms,
    settled_since_ms,
    tombstone_horizon,
    undated,
    units_of,
    units_to_rewrite,
)
from logstore.errors import Refused
from logstore.formats.table_row import POINTER_AGAIN_S
from logstore.history.forms.snapshot import OFFSET_MAX, DataFile

NOW_MS = 1_000_000
RULES = CleanRules(is_compacted=True)


def file(
    low: int, high: int, *, size: int = 100, times: tuple[int, int] | None = (0, 0)
) -> DataFile:
    return DataFile(
        f"partition=0/{low}", 0, high - low + 1, size, low, high, *(times or (None,) * 2)
    )


def of(clean_before: int, *files: DataFile, rules: CleanRules = RULES) -> CleanRange:
    end = max(one.max_offset for one in files) + 1
    return clean_range(0, files, end, clean_before, rules, NOW_MS)


def test_settings_are_kafkas() -> None:
    assert CleanRules.of({}, {}) == CleanRules()
    rules = CleanRules.of(
        {
            "cleanup.policy": "compact,delete",
            "min.cleanable.dirty.ratio": "0.25",
            "min.compaction.lag.ms": "1",
            "max.compaction.lag.ms": "2",
            "delete.retention.ms": "3",
            "logstore.clean.dead.ratio": "0.5",
        },
        {"cleanup.policy": "delete"},
    )
    assert rules == CleanRules(True, 0.25, 1, 2, 3, 0.5)


def test_where_a_topic_says_nothing_brokers_do() -> None:
    defaults = {"cleanup.policy": "compact", "delete.retention.ms": "5"}

    rules = CleanRules.of({"delete.retention.ms": "6"}, defaults)

    assert (rules.is_compacted, rules.tombstones_kept_ms) == (True, 6)
    assert not CleanRules.of({"cleanup.policy": "delete"}, defaults).is_compacted


def test_files_that_overlap_are_one_unit() -> None:
    units = units_of([file(0, 9), file(10, 30), file(20, 25), file(29, 40), file(50, 60)])

    assert [(unit.min_offset, unit.max_offset, len(unit.files)) for unit in units] == [
        (0, 9, 1),
        (10, 40, 3),
        (50, 60, 1),
    ]


def test_a_partition_with_a_file_of_unknown_bounds_is_refused() -> None:
    odd = DataFile("partition=0/odd", 0, -1, 100, 0, OFFSET_MAX)

    with pytest.raises(Refused, match="statistics of every file: path=partition=0/odd"):
        units_of([odd, file(10, 20)])


def test_the_clean_end_is_the_table_end_without_a_lag() -> None:
    wanted = clean_range(0, [file(0, 9), file(20, 29)], 40, 10, RULES, NOW_MS)

    assert (wanted.clean_end, len(wanted.units), len(wanted.dirty)) == (40, 2, 1)


def test_the_clean_end_is_below_the_first_record_younger_than_the_lag() -> None:
    rules = CleanRules(is_compacted=True, lag_min_ms=1000)
    old, young = (0, NOW_MS - 1000), (0, NOW_MS - 999)
    files = [file(0, 9, times=old), file(10, 19, times=young), file(20, 29, times=old)]

    wanted = of(0, *files, rules=rules)

    assert (wanted.clean_end, len(wanted.units)) == (10, 1)
    assert of(0, file(0, 9, times=None), rules=rules).clean_end == 0


LAG = CleanRules(is_compacted=True, lag_min_ms=1000)


def range_by_objects(clean_before: int, *files: DataFile, ages_ms: dict[str, int]) -> CleanRange:
    """The range, and `ages_ms` without those of the objects that were asked."""
    end = max(one.max_offset for one in files) + 1
    written_ms: dict[str, int] = {}
    while path := undated(files, clean_before, LAG, NOW_MS, written_ms):
        written_ms[path] = NOW_MS - ages_ms.pop(path)
    return clean_range(0, files, end, clean_before, LAG, NOW_MS, written_ms)


@pytest.mark.parametrize("times", [(-1, -1), None])
def test_a_file_without_timestamps_is_as_old_as_its_object(times: tuple[int, int] | None) -> None:
    files = [file(low, low + 9, times=times) for low in range(0, 40, 10)]
    ages_ms = dict(zip([one.path for one in files], [2000, 1000, 999, 999], strict=True))

    assert range_by_objects(0, *files, ages_ms=ages_ms).clean_end == 20
    assert list(ages_ms) == [files[3].path]


def test_no_object_is_asked_for_its_age_where_a_timestamp_decides() -> None:
    files = [file(0, 9, times=(0, NOW_MS)), file(10, 19, times=(-1, -1))]
    beside = [file(0, 9, times=(0, NOW_MS)), file(5, 19, times=(-1, -1))]

    assert undated(files, 0, LAG, NOW_MS, {}) is None
    assert undated(beside, 0, LAG, NOW_MS, {}) is None
    assert undated(files[1:], 0, RULES, NOW_MS, {}) is None


def test_a_clean_file_without_timestamps_holds_nothing_up_although_its_object_is_young() -> None:
    clean, dirty = (file(low, low + 9, times=(-1, -1)) for low in (0, 10))

    assert range_by_objects(10, clean, dirty, ages_ms={dirty.path: 1000}).clean_end == 20


def test_a_record_without_a_timestamp_is_not_overdue_since_1970() -> None:
    rules = CleanRules(is_compacted=True, dirty_ratio_min=1, lag_max_ms=1000)
    wanted = of(10, file(0, 9), file(10, 19, times=(-1, -1)))

    assert overdue_ms(wanted, rules, NOW_MS) == 0


def test_a_partition_is_due_when_enough_of_it_is_dirty() -> None:
    clean, dirty = file(0, 9, size=100), file(10, 19, size=100)

    assert of(10, clean, dirty).dirty_ratio == 0.5
    assert is_due(of(10, clean, dirty), RULES, NOW_MS)
    assert not is_due(of(10, clean, file(10, 19, size=99)), RULES, NOW_MS)
    assert not is_due(of(20, clean, dirty), RULES, NOW_MS)
    assert is_due(of(0, clean), RULES, NOW_MS)


def test_a_partition_is_due_when_a_dirty_record_is_too_old() -> None:
    rules = CleanRules(is_compacted=True, lag_max_ms=1000)
    clean = file(0, 9, size=1000)

    assert is_due(of(10, clean, file(10, 19, times=(NOW_MS - 1001, NOW_MS))), rules, NOW_MS)
    assert not is_due(of(10, clean, file(10, 19, times=(NOW_MS - 1000, NOW_MS))), rules, NOW_MS)


def test_a_record_is_overdue_by_what_it_is_older_than_the_lag() -> None:
    rules = CleanRules(is_compacted=True, dirty_ratio_min=1, lag_max_ms=1000)
    old, young = (NOW_MS - 1500, NOW_MS), (NOW_MS, NOW_MS)
    wanted = of(10, file(0, 9), file(10, 19, times=old), file(20, 29, times=young))

    assert overdue_ms(wanted, rules, NOW_MS) == 500
    assert overdue_ms(wanted, replace(rules, lag_max_ms=1500), NOW_MS) == 0
    assert overdue_ms(wanted, CleanRules(is_compacted=True), NOW_MS) == 0


def test_nothing_is_due_below_a_clean_end_that_a_longer_lag_would_take_back() -> None:
    rules = CleanRules(is_compacted=True, dirty_ratio_min=0, lag_min_ms=1000)
    young = file(0, 9, times=(NOW_MS, NOW_MS))

    assert not is_due(of(10, young, rules=rules), rules, NOW_MS)


def test_a_tombstone_goes_only_below_all_three() -> None:
    assert tombstone_horizon(10, 20, None) == 10
    assert tombstone_horizon(20, 10, None) == 10
    assert tombstone_horizon(20, 20, 5) == 5
    assert tombstone_horizon(20, 20, 0) == 0


def test_files_are_written_again_when_a_fifth_of_their_rows_is_dead() -> None:
    counts = {
        0: UnitCounts(100, 19, 0, 0),
        1: UnitCounts(100, 20, 0, 0),
        2: UnitCounts(100, 10, 5, 5),
        3: UnitCounts(0, 0, 0, 0),
        4: UnitCounts(100, 0, 0, 0),
    }

    assert units_to_rewrite(counts, 0.2) == [1, 2]
    assert units_to_rewrite(counts, 0.0) == [0, 1, 2]


def test_neighbours_are_written_together_up_to_a_size() -> None:
    units = units_of([file(10 * n, 10 * n + 9) for n in range(7)])

    groups = neighbours_of(units, [0, 1, 2, 4, 5], 200)

    assert [[unit.index for unit in group] for group in groups] == [[0, 1], [2], [4, 5]]


def test_a_run_takes_the_dirtiest_and_one_at_least() -> None:
    small, half = of(0, file(0, 9, size=10)), of(10, file(0, 9), file(10, 19))

    assert most_dirty([half, small], 1000) == [small, half]
    assert most_dirty([half, small], 20) == [small]
    assert most_dirty([half], 1) == [half]


def test_limits_follow_the_memory_of_a_task() -> None:
    limits = CleanLimits.within(256 << 20)

    assert limits.in_memory_bytes == CleanLimits().in_memory_bytes
    assert limits.scan_rows == 1 << 22
    assert CleanLimits.within(64 << 20).bucket_bytes == 32 << 20


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=30))
def test_units_hold_every_file_once_and_never_overlap(sizes: list[tuple[int, int]]) -> None:
    files, at = [], 0
    for gap, length in sizes:
        at = max(0, at + gap - 2)
        files.append(file(at, at + length))
    files.sort(key=lambda one: (one.min_offset, one.max_offset))

    units = units_of(files)

    assert [one for unit in units for one in unit.files] == files
    assert all(a.max_offset < b.min_offset for a, b in pairwise(units))
    assert [unit.index for unit in units] == list(range(len(units)))


@given(st.lists(st.integers(0, 9), unique=True), st.integers(1, 500))
def test_groups_hold_what_is_wanted_in_order(wanted: list[int], bytes_max: int) -> None:
    units: list[Unit] = units_of([file(10 * n, 10 * n + 9) for n in range(10)])

    groups = neighbours_of(units, sorted(wanted), bytes_max)

    assert [unit.index for group in groups for unit in group] == sorted(wanted)
    for group in groups:
        assert sum(unit.size_bytes for unit in group) <= bytes_max or len(group) == 1
        assert [unit.index for unit in group] == [group[0].index + n for n in range(len(group))]


def test_tombstones_age_from_when_no_broker_serves_the_older_records() -> None:
    believed_ms = int(1000 * POINTER_AGAIN_S)
    rules = CleanRules(is_compacted=True, tombstones_kept_ms=1)

    assert settled_since_ms(NOW_MS, rules, 0) == NOW_MS - 1 - believed_ms
    behind_ms = NOW_MS - 1 - believed_ms
    assert settled_since_ms(NOW_MS, rules, behind_ms) == behind_ms
    assert settled_since_ms(NOW_MS, rules, behind_ms + 1) is None
    at_once = CleanRules(is_compacted=True, tombstones_kept_ms=0)
    assert settled_since_ms(NOW_MS, at_once, NOW_MS) == NOW_MS
