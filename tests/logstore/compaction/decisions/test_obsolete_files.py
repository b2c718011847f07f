"""What of a table may go: files with nothing from log start on."""

import pytest

from logstore.compaction.decisions.obsolete_files import expired
from logstore.history.forms.snapshot import DataFile, Snapshot

TOPIC = bytes(16)


def snapshot_of(*bounds: tuple[int, int]) -> Snapshot:
    """Partition 0, a file for each first and last offset; partition 1 has the first of them."""
    files = [DataFile(f"{n}.parquet", 0, 1, 100, *both) for n, both in enumerate(bounds)]
    other = DataFile("other.parquet", 1, 1, 100, *bounds[0])
    return Snapshot(TOPIC, 3, {0: 30, 1: 10}, {0: files, 1: [other]})


@pytest.mark.parametrize(
    ("log_start", "gone"),
    [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3)],
)
def test_a_file_goes_once_its_last_record_is_below_log_start(log_start: int, gone: int) -> None:
    snapshot = snapshot_of((0, 9), (10, 19), (20, 29))

    found = expired(snapshot, {0: log_start})

    assert [(file.partition, file.path) for file in found] == [
        (0, f"{number}.parquet") for number in range(gone)
    ]


def test_files_that_overlap_are_judged_one_by_one() -> None:
    snapshot = snapshot_of((0, 29), (5, 9), (10, 19))

    assert [file.path for file in expired(snapshot, {0: 20})] == ["1.parquet", "2.parquet"]


def test_a_partition_without_a_log_start_keeps_all() -> None:
    assert expired(snapshot_of((0, 9)), {}) == []
