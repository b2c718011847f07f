"""What becomes of a commit that was refused: again, done already, or never."""

import pytest

from logstore.compaction.commit import CommitStatus, commit_status
from logstore.history.forms.snapshot import DataFile, Snapshot, TableCommit

ID = bytes(16)


def file(start: int, end: int, name: str = "mine") -> DataFile:
    return DataFile(f"partition=0/{name}-{start}", 0, end - start, 100, start, end - 1)


def table(end: int | None, *files: DataFile, version: int = 2) -> Snapshot:
    ends = {} if end is None else {0: end}
    return Snapshot(ID, version, ends, {0: list(files)})


MOVE = TableCommit({0: 10}, {0: 20}, [file(10, 20)], run="run")
FIRST = TableCommit({0: 5}, {0: 20}, [file(5, 20)], run="run")
MERGE = TableCommit({}, {}, [file(0, 10, "merged")], [file(0, 5), file(5, 10)], run="run")
EXPIRE = TableCommit({}, {}, (), [file(0, 5)], run="run")


@pytest.mark.parametrize(
    ("commit", "before", "newest", "expected"),
    [
        (MOVE, table(10), table(10), CommitStatus.UNCHANGED),
        (MOVE, table(10), table(20, file(10, 20)), CommitStatus.DONE),
        (MOVE, table(10), table(20, file(10, 20, "a-twins")), CommitStatus.CHANGED),
        (MOVE, table(10), table(15), CommitStatus.CHANGED),
        (MOVE, table(10), table(30, file(10, 20)), CommitStatus.CHANGED),
        (MOVE, table(10), table(None), CommitStatus.CHANGED),
        (FIRST, table(None), table(None), CommitStatus.UNCHANGED),
        (FIRST, table(None), table(7), CommitStatus.CHANGED),
        (FIRST, table(7), table(7), CommitStatus.CHANGED),  # another writer made the table
        (MERGE, table(10), table(10, file(0, 5), file(5, 10)), CommitStatus.UNCHANGED),
        (MERGE, table(10), table(10, file(0, 10, "merged")), CommitStatus.DONE),
        (MERGE, table(10), table(10, file(0, 10, "another")), CommitStatus.CHANGED),
        (MERGE, table(10), table(10, file(5, 10)), CommitStatus.CHANGED),
        (EXPIRE, table(10), table(10, file(0, 5)), CommitStatus.UNCHANGED),
        (EXPIRE, table(10), table(10), CommitStatus.DONE),
    ],
)
def test_the_newest_table_tells(
    commit: TableCommit, before: Snapshot, newest: Snapshot, expected: CommitStatus
) -> None:
    assert commit_status(newest, before, commit) is expected
