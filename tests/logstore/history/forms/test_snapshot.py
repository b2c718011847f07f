"""Which files may hold an offset, and which commits fit a table, for any files."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from logstore.history.forms.snapshot import (
    OFFSET_MAX,
    DataFile,
    FileList,
    Snapshot,
    TableCommit,
    TableConflict,
    advanced,
    changed,
    check_commit,
)
from tests.logstore.history.tables import TOPIC_ID, a_file, move

bounds = st.tuples(st.integers(0, 50), st.integers(0, 20))


def files_of(spans: Sequence[tuple[int, int]], first: int = 0) -> list[DataFile]:
    return [
        DataFile(f"partition=0/{first + i}.parquet", 0, length + 1, 10, low, low + length)
        for i, (low, length) in enumerate(spans)
    ]


def may_hold(files: Sequence[DataFile], start: int, end: int) -> set[str]:
    found = {one.path for one in files if one.min_offset < end and one.max_offset >= start}
    return found if start < end else set()


@given(st.lists(bounds, max_size=20), st.integers(0, 80), st.integers(0, 80))
def test_every_file_that_may_hold_an_offset_is_found(
    spans: list[tuple[int, int]], start: int, end: int
) -> None:
    files = files_of(spans)
    for held in ({0: FileList(0, files)}, {0: files}):
        found = Snapshot(TOPIC_ID, 1, {0: 99}, held).files_for(0, start, end)
        assert {file.path for file in found} == may_hold(files, start, end)
        assert [file.min_offset for file in found] == sorted(file.min_offset for file in found)


@given(st.lists(bounds, max_size=10), st.lists(bounds, max_size=10), st.randoms())
def test_a_list_that_was_changed_equals_a_new_list(
    before: list[tuple[int, int]], after: list[tuple[int, int]], rng: Random
) -> None:
    files, more = files_of(before), files_of(after, first=100)
    gone = {file.path for file in files if rng.random() < 0.5}
    kept = [file for file in files if file.path not in gone]

    assert FileList(0, files).changed(more, gone) == FileList(0, [*kept, *more])
    assert FileList(0, files).changed(more, ()) == FileList(0, [*files, *more])
    snapshot = changed(Snapshot(TOPIC_ID, 1, {}, {0: FileList(0, files)}), 2, {}, more, gone)
    assert list(snapshot.all_files()) == list(FileList(0, [*kept, *more]))
    assert (snapshot.first(0) is None) == (not kept and not more)


def test_a_batch_that_reaches_into_a_gap_is_looked_for_in_the_file_before() -> None:
    snapshot = Snapshot(TOPIC_ID, 1, {}, {0: FileList(0, [a_file(0, 5), a_file(9, 12)])})

    def paths(start: int) -> list[int]:
        files = snapshot.files_for(0, start, 100, whole_batches=True)
        return [file.min_offset for file in files]

    assert [paths(start) for start in (0, 4, 5, 8, 9, 11, 12)] == [
        *([0, 9], [0, 9], [0, 9], [0, 9], [9], [9], [9])
    ]
    assert snapshot.files_for(1, 5, 100, whole_batches=True) == []


def test_a_file_without_statistics_may_hold_anything() -> None:
    unknown = DataFile("partition=0/x.parquet", 0, -1, 10, 0, OFFSET_MAX)
    snapshot = Snapshot(TOPIC_ID, 1, {}, {0: FileList(0, [a_file(5, 9), unknown])})
    assert not unknown.has_bounds
    assert snapshot.files_for(0, 100, 101) == [unknown]
    assert snapshot.files_for(0, 6, 7) == [unknown, a_file(5, 9)]
    assert snapshot.files_for(1, 0, 100) == []


@pytest.mark.parametrize("numbers", [(-1, 5), (6, 5)])
def test_a_file_with_impossible_bounds_is_invalid(numbers: tuple[int, int]) -> None:
    with pytest.raises(Invalid):
        DataFile("x", 0, 1, 1, *numbers)


TABLE = Snapshot(
    TOPIC_ID,
    4,
    {0: 20, 1: 5},
    {0: FileList(0, [a_file(0, 10), a_file(10, 20)]), 1: FileList(1, [a_file(0, 5, partition=1)])},
)


def merge(adds: Sequence[DataFile], removes: Sequence[DataFile]) -> TableCommit:
    return TableCommit({}, {}, adds, removes, "merge")


@pytest.mark.parametrize(
    "commit",
    [
        move((0, 20, 30)),
        move((0, 20, 30), (1, 5, 6), (7, 3, 9)),
        TableCommit({0: 20}, {0: 25}, (), (), "markers"),
        merge([a_file(0, 20, run="m")], [a_file(0, 10), a_file(10, 20)]),
        merge([a_file(0, 8, run="m")], [a_file(0, 10)]),
        merge([], [a_file(0, 10)]),
        TableCommit({0: 20}, {0: 30}, [a_file(10, 30, run="m")], [a_file(10, 20)], "both"),
    ],
)
def test_a_commit_that_fits_is_taken(commit: TableCommit) -> None:
    check_commit(TABLE, commit)
    after = advanced(TABLE, commit)
    assert after.version == 5
    assert after.ends == {**TABLE.ends, **commit.ends}
    assert set(after.all_files()) == {
        *commit.adds,
        *(file for file in TABLE.all_files() if file not in commit.removes),
    }


@pytest.mark.parametrize(
    ("commit", "error"),
    [
        (move((0, 19, 30)), TableConflict),
        (move((0, 0, 10)), TableConflict),
        (merge([], [a_file(3, 4)]), TableConflict),
        (TableCommit({0: 20}, {}, ()), Invalid),
        (TableCommit({0: 20}, {0: 19}, ()), Invalid),
        (TableCommit({0: 20}, {0: 30}, [a_file(20, 31)]), Invalid),
        (TableCommit({0: 20}, {0: 30}, [a_file(20, 30, partition=1)]), Invalid),
        (merge([a_file(0, 10, run="m")], []), Invalid),
        (merge([a_file(0, 15, run="m")], [a_file(0, 10)]), Invalid),
        (merge([a_file(0, 15, run="m")], [a_file(0, 10), a_file(0, 5, partition=1)]), Invalid),
    ],
)
def test_a_commit_that_does_not_fit_is_not(commit: TableCommit, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_commit(TABLE, commit)


def test_a_settled_end_is_not_above_the_clean_end_of_its_commit() -> None:
    check_commit(TABLE, TableCommit({}, {}, run="clean", cleaned={0: 20}, settled={0: 20}))
    for cleaned in ({0: 19}, {}):
        with pytest.raises(Invalid, match="a settled end above the clean end, or without one"):
            check_commit(TABLE, TableCommit({}, {}, run="c", cleaned=cleaned, settled={0: 20}))
