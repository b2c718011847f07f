"""Which small files become one."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from logstore.compaction.decisions.merge import (
    MERGED_BYTES_MAX,
    MERGED_ROWS_MAX,
    SMALL_BYTES,
    groups_of,
    size_bytes,
    within,
)
from logstore.history.forms.snapshot import OFFSET_MAX, DataFile, Snapshot
from logstore.history.write import FILE_ROWS_MAX

MiB = 1 << 20


def files(sizes: list[int], *, partition: int = 0) -> list[DataFile]:
    return [
        DataFile(f"partition={partition}/{n}", partition, 10, size, 10 * n, 10 * n + 9)
        for n, size in enumerate(sizes)
    ]


def snapshot(*partitions: list[DataFile]) -> Snapshot:
    lists = {
        number: sorted(mine, key=lambda file: (file.min_offset, file.max_offset))
        for number, mine in enumerate(partitions)
    }
    return Snapshot(bytes(16), 1, dict.fromkeys(lists, 10**6), lists)


def paths(groups: list[list[DataFile]]) -> list[list[str]]:
    return [[file.path.split("/")[1] for file in group] for group in groups]


def test_many_small_neighbours_are_merged() -> None:
    (group,) = groups_of(snapshot(files([MiB] * 8)))

    assert [file.min_offset for file in group] == [10 * n for n in range(8)]


def test_few_are_left_alone() -> None:
    assert groups_of(snapshot(files([MiB] * 7))) == []


def test_a_group_has_no_more_rows_than_a_file_may_have() -> None:
    """Else it would be cut there, and be merged again with the next run."""
    assert MERGED_ROWS_MAX == FILE_ROWS_MAX

    def of_rows(rows: int) -> list[DataFile]:
        return [replace(file, rows=rows) for file in files([MiB] * 16)]

    assert groups_of(snapshot(of_rows(FILE_ROWS_MAX // 4))) == []
    groups = groups_of(snapshot(of_rows(FILE_ROWS_MAX // 8)))
    assert [len(group) for group in groups] == [8, 8]


def test_a_large_file_parts_neighbours() -> None:
    small, large = [MiB] * 8, SMALL_BYTES

    found = groups_of(snapshot(files([*small, large, *small])))

    assert paths(found) == [[str(n) for n in range(8)], [str(n) for n in range(9, 17)]]


def test_what_was_merged_before_waits_until_as_much_has_come() -> None:
    assert groups_of(snapshot(files([9 * MiB] + [MiB] * 7))) == []
    (group,) = groups_of(snapshot(files([9 * MiB] + [MiB] * 8)))
    assert len(group) == 8  # without the large one
    (group,) = groups_of(snapshot(files([9 * MiB] + [MiB] * 9)))
    assert len(group) == 10


def test_files_of_others_are_left_alone() -> None:
    plain = files([MiB] * 20)
    strange = DataFile("partition=0/odd", 0, -1, MiB, 0, OFFSET_MAX)
    overlapping = DataFile("partition=0/over", 0, 10, MiB, 95, 104)

    assert groups_of(snapshot([strange, *plain])) == []
    found = groups_of(snapshot([*plain, overlapping]))
    taken = {path for group in paths(found) for path in group}
    assert not taken & {"9", "over"}


def test_a_run_merges_what_it_may() -> None:
    groups = groups_of(snapshot(files([MiB] * 8), files([2 * MiB] * 9, partition=1)))

    assert [len(group) for group in within(groups, 18 * MiB)] == [9]
    assert [len(group) for group in within(groups, 26 * MiB)] == [9, 8]


@given(st.lists(st.integers(1, 40 * MiB), max_size=60))
def test_a_group_is_worth_its_cost(sizes: list[int]) -> None:
    for group in groups_of(snapshot(files(sizes))):
        assert len(group) >= 8
        assert size_bytes(group) <= MERGED_BYTES_MAX
        assert 2 * max(file.size_bytes for file in group) <= size_bytes(group)
        assert [file.min_offset for file in group] == list(
            range(group[0].min_offset, group[-1].max_offset, 10)
        )
