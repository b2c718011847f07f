"""`logstore fsck` on tables: files, commits, table pointers and ends; what no tier holds is
lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logstore.cli.command import FAILED, OK
from logstore.cli.fsck.tables import file_problems
from logstore.formats.keys import segment_key
from logstore.formats.table_row import TABLE, TableRow
from logstore.history.delta import Tables
from logstore.history.forms.entries import CHECKPOINT_INTERVAL, encode_commit
from logstore.history.forms.names import (
    CheckpointName,
    data_path,
    entry_key,
    last_checkpoint_key,
    table_key,
)
from logstore.history.forms.snapshot import DataFile, Snapshot, TableCommit
from logstore.protocol.rules.checks import ProblemKind
from logstore.registry.sqlite import SqliteRows
from tests.logstore.cli.conftest import Command
from tests.logstore.cli.fsck.test_fsck import (
    add_row,
    chain,
    change_row,
    drop_row,
    found,
    fsck,
    partition_of,
    row_of,
    seal_of,
)
from tests.logstore.cli.fsck.test_fsck import spoil as spoil_bytes
from tests.logstore.raised import raised_to


@dataclass
class MovedTopic:
    """`orders`, partition 0: offsets [0, 2) lie in chain 1 and, in two files, in the table."""

    log: Path
    topic_id: bytes
    tables: Tables
    snapshot: Snapshot

    @property
    def table(self) -> str:
        return table_key(self.topic_id)

    def file(self, start: int, end: int, offsets: Sequence[int] | None = None) -> DataFile:
        """Stored under the name of [start, end)."""
        path = data_path(0, start, end, "run", 0)
        stored = self.log / self.table / path
        stored.parent.mkdir(parents=True, exist_ok=True)
        held = list(range(start, end)) if offsets is None else list(offsets)
        pq.write_table(pa.table({"offset": pa.array(held, pa.int64())}), stored)
        return DataFile(path, 0, end - start, stored.stat().st_size, start, end - 1)

    def move(self, start: int, end: int, *files: DataFile) -> None:
        commit = TableCommit({0: start}, {0: end}, files or [self.file(start, end)], run="run")
        self.snapshot = self.tables.commit(self.snapshot, commit)
        self.tell(end, self.snapshot.version)

    def tell(self, end: int, version: int) -> None:
        row = TableRow(version=version, ends={0: end}).row()
        rows = SqliteRows(self.log / "registry.db").blocking()
        rows.put_if(TABLE, self.topic_id.hex(), row, [], "changed")
        rows.close()

    def trim(self, *, deleted: bool) -> None:
        """Chain 1 up to its seal. Its other partitions are not wanted any more."""
        seal = seal_of(self.log)
        for topic, number in (("orders", 1), ("notes", 0)):
            place = partition_of(self.log, topic, number)
            row = row_of(self.log, *place)
            drop_row(self.log, *place)
            add_row(self.log, *place, {**row, **raised_to(1)})
        change_row(self.log, *chain(1), trim=seal, deleted=seal if deleted else 0)
        for seq in range(1, seal if deleted else 0):
            (self.log / segment_key(1, seq)).unlink()


@pytest.fixture
def moved(written: Path) -> MovedTopic:
    topic_id = bytes.fromhex(str(row_of(written, "topic", "orders")["topic_id"]))
    tables = Tables(str(written))
    topic = MovedTopic(written, topic_id, tables, tables.create(topic_id, "orders"))
    topic.move(0, 1)
    topic.move(1, 2)
    return topic


def test_a_log_with_a_table_passes_and_its_files_are_counted(
    logstore: Command, moved: MovedTopic
) -> None:
    answer = fsck(logstore, moved.log, "--data")
    assert answer.code == OK, answer
    counts = answer.json["counts"]
    assert (counts["tables"], counts["table_files"]) == (1, 2)


@pytest.mark.parametrize("deleted", [False, True])
def test_segments_whose_records_the_table_holds_are_not_missed(
    logstore: Command, moved: MovedTopic, deleted: bool
) -> None:
    moved.trim(deleted=deleted)
    assert fsck(logstore, moved.log).code == OK


def test_what_neither_segments_nor_the_table_hold_is_lost(
    logstore: Command, moved: MovedTopic
) -> None:
    (moved.log / entry_key(moved.topic_id, 2)).unlink()
    moved.tell(1, 1)
    moved.trim(deleted=True)
    assert found(fsck(logstore, moved.log)) == {(ProblemKind.LOST.value, "row chain/1")}


def test_before_anything_is_deleted_nothing_is_lost(logstore: Command, moved: MovedTopic) -> None:
    (moved.log / entry_key(moved.topic_id, 2)).unlink()
    moved.tell(1, 1)
    moved.trim(deleted=False)
    assert found(fsck(logstore, moved.log)) == {(ProblemKind.TRIMMED_TOO_FAR.value, "row chain/1")}


def test_the_worst_is_named_first(logstore: Command, moved: MovedTopic) -> None:
    (moved.log / entry_key(moved.topic_id, 2)).unlink()
    moved.trim(deleted=True)
    whats = [problem["what"] for problem in fsck(logstore, moved.log).json["problems"]]
    assert whats == [ProblemKind.LOST.value, ProblemKind.TABLE_BEHIND.value]


@pytest.mark.slow
def test_a_table_whose_checkpoints_fail_is_a_warning(logstore: Command, moved: MovedTopic) -> None:
    for start in range(2, 2 + 2 * CHECKPOINT_INTERVAL):
        moved.move(start, start + 1)
        for checkpoint in (moved.log / moved.table / "_delta_log").glob("*checkpoint*"):
            checkpoint.unlink()
    entries = moved.snapshot.version + 1
    answer = fsck(logstore, moved.log)
    assert answer.json["counts"]["unsummed_entries"] == {moved.table: entries}
    shown = logstore("fsck", "--url", str(moved.log))
    assert f"{moved.table}: {entries} entries since the last checkpoint" in shown.out

    moved.tables.checkpoint(moved.topic_id)
    assert fsck(logstore, moved.log).json["counts"]["unsummed_entries"] == {}


def lose_a_file(moved: MovedTopic) -> None:
    (moved.log / moved.table / data_path(0, 1, 2, "run", 0)).unlink()


def cut_a_file(moved: MovedTopic) -> None:
    path = moved.log / moved.table / data_path(0, 1, 2, "run", 0)
    path.write_bytes(path.read_bytes()[:-1])


def move_too_far(moved: MovedTopic) -> None:
    moved.move(2, 9, moved.file(2, 9))


def say_too_much(moved: MovedTopic) -> None:
    moved.tell(3, 2)


def overwrite_a_commit(moved: MovedTopic) -> None:
    """The second begins where the first, of which another took the place, did not end."""
    path = moved.log / entry_key(moved.topic_id, 1)
    path.unlink()
    other = TableCommit({0: 0}, {0: 9}, [moved.file(0, 1)], run="unsafe")
    path.write_bytes(encode_commit(moved.topic_id, 0, other, 0))


def break_an_entry(moved: MovedTopic) -> None:
    path = moved.log / entry_key(moved.topic_id, 2)
    spoil_bytes(path, 0)


def spoil_a_checkpoint(moved: MovedTopic) -> None:
    """Its entries are there, so readers do without."""
    for key in CheckpointName(1).keys(moved.topic_id):
        (moved.log / key).write_bytes(b"PAR1 and no more")
    (moved.log / last_checkpoint_key(moved.topic_id)).write_text('{"version":1}')


def lose_the_table(moved: MovedTopic) -> None:
    for path in (moved.log / moved.table).rglob("*.*"):
        path.unlink()


def hide_a_epoch_range(moved: MovedTopic) -> None:
    """The row lists only the newest epoch range, and the table ends below it."""
    place = partition_of(moved.log, "orders", 0)
    change_row(moved.log, *place, stretches="[[1,2,2]]")
    (moved.log / entry_key(moved.topic_id, 2)).unlink()


def raise_log_start(moved: MovedTopic) -> None:
    """As a restore did that asked no table: above what the table holds, and no reason given."""
    change_row(moved.log, *partition_of(moved.log, "orders", 0), log_start=2)


def test_files_below_a_log_start_that_was_raised_for_a_reason_are_fine(
    logstore: Command, moved: MovedTopic
) -> None:
    """They go with the next compaction."""
    place = partition_of(moved.log, "orders", 0)
    row = row_of(moved.log, *place)
    drop_row(moved.log, *place)
    add_row(moved.log, *place, {**row, **raised_to(2)})

    assert fsck(logstore, moved.log).code == OK


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (lose_a_file, ProblemKind.TABLE_FILE),
        (cut_a_file, ProblemKind.TABLE_FILE),
        (move_too_far, ProblemKind.OLD_REGISTRY),
        (say_too_much, ProblemKind.TABLE_BEHIND),
        (overwrite_a_commit, ProblemKind.TABLE_COMMITS),
        (break_an_entry, ProblemKind.TABLE),
        (lose_the_table, ProblemKind.TABLE),
        (spoil_a_checkpoint, ProblemKind.TABLE_CHECKPOINT),
        (hide_a_epoch_range, ProblemKind.LOST),
        (raise_log_start, ProblemKind.LOG_START),
    ],
    ids=lambda value: value.name if isinstance(value, ProblemKind) else "",
)
def test_what_is_wrong_with_a_table_is_named(
    logstore: Command, moved: MovedTopic, harm: Callable[[MovedTopic], None], what: ProblemKind
) -> None:
    harm(moved)
    answer = fsck(logstore, moved.log)
    assert what.value in {kind for kind, _ in found(answer)}
    assert all(one["repair"] for one in answer.json["problems"])


def test_rows_of_a_topic_that_is_being_deleted_may_be_older_than_its_table(
    logstore: Command, moved: MovedTopic
) -> None:
    """Restore leaves them as they were: nothing reads them, and cleaning removes them."""
    move_too_far(moved)
    change_row(moved.log, "topic", "orders", status="deleting")

    answer = fsck(logstore, moved.log)

    assert answer.code == OK, answer


@pytest.mark.parametrize("offsets", [(2,), (2, 2), (1, 2), (2, 3, 4)])
def test_rows_of_files_are_checked_on_demand(
    logstore: Command, moved: MovedTopic, offsets: Sequence[int]
) -> None:
    moved.move(2, 3, moved.file(2, 3, offsets))
    assert fsck(logstore, moved.log).code == OK
    answer = fsck(logstore, moved.log, "--data")
    wrong = offsets != (2,)
    assert (answer.code != OK) == wrong
    if wrong:
        assert {kind for kind, _ in found(answer)} == {ProblemKind.TABLE_FILE.value}


def test_files_that_overlap_are_fine_as_long_as_no_offset_can_be_there_twice(
    logstore: Command, moved: MovedTopic
) -> None:
    """As an OPTIMIZE or a Z-order leaves them."""
    first, second = moved.file(0, 1), moved.file(1, 2)
    odd = DataFile(first.path, 0, 1, first.size_bytes, 0, 1)
    other = DataFile(second.path, 0, 1, second.size_bytes, 0, 1)
    sizes = {f"t/{file.path}": file.size_bytes for file in (odd, other)}
    snapshot = Snapshot(moved.topic_id, 1, {0: 2}, {})
    assert not list(file_problems("t", snapshot, [odd, other], sizes))
    thrice = DataFile(second.path, 0, 2, second.size_bytes, 0, 1)
    (problem,) = file_problems("t", snapshot, [odd, thrice], sizes)
    assert problem.what is ProblemKind.TABLE_FILE


def test_inspect_shows_tables(logstore: Command, moved: MovedTopic) -> None:
    (line,) = logstore("inspect", "--url", moved.log, "--json").json["tables"]
    assert (line["topic"], line["version"], line["files"]) == ("orders", 2, 2)
    assert line["ends"] == {"0": 2}
    assert "0: 2" in logstore("inspect", "--url", moved.log).out
    break_an_entry(moved)
    damaged = logstore("inspect", "--url", moved.log)
    assert damaged.code == FAILED
    assert f"{moved.table}" in damaged.out
