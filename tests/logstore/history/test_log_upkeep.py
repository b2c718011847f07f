"""The log of a table stays short, and files stay as long as the table promises to its readers."""

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Corrupt, Denied, Refused
from logstore.history.delta import Tables
from logstore.history.forms import names
from logstore.history.forms.durations import DELETED_FILES, LOG_ENTRIES, parse_interval
from logstore.history.forms.snapshot import Snapshot, TableCommit
from logstore.objects.directory import DirectoryStore
from logstore.ports.objects import Buffer
from tests.logstore.history.tables import (
    NOW_MS,
    TOPIC_ID,
    SetTime,
    directory_store,
    directory_tables,
    moved,
    some_rows,
    written,
)
from tests.logstore.history.test_delta import agrees, delta_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SWEEP_HOURS = 24


class Clocked:
    """A table in a directory whose files are as old as the clock says."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, SetTime()
        self.tables: Tables = directory_tables(root, self.clock)
        self.snapshot: Snapshot = self.tables.create(TOPIC_ID, "orders")
        self.folder = root / names.table_key(TOPIC_ID)
        self.log = self.folder / "_delta_log"

    def pass_ms(self, milliseconds: int) -> None:
        """Files without a time of this clock get the one that it shows now, then it goes on."""
        for path in self.folder.rglob("*"):
            if path.stat().st_mtime * 1000 > NOW_MS + 1000 * DAY_MS:
                os.utime(path, (self.clock.now / 1000, self.clock.now / 1000))
        self.clock.now += milliseconds

    def move(self, count: int = 1, *, nameless: bool = True) -> None:
        for _ in range(count):
            end = self.snapshot.end(0) or 0
            if nameless:
                self.snapshot = moved(self.tables, self.snapshot, (0, end, end + 10))
            else:
                files = written(directory_store(self.root), some_rows(end, end + 10), number=end)
                commit = TableCommit({0: end}, {0: end + 10}, files, run="run")
                self.snapshot = self.tables.commit(self.snapshot, commit)

    def drop_all_files(self) -> None:
        old = [*self.snapshot.all_files()]
        self.snapshot = self.tables.commit(self.snapshot, TableCommit({}, {}, (), old, "retention"))

    def set_property(self, name: str, value: str) -> None:
        delta_of(self.root).alter.set_table_properties({name: value})
        found = self.tables.snapshot(TOPIC_ID)
        assert found is not None
        self.snapshot = found

    def removed_by_checkpoint(self) -> list[object]:
        """What the last checkpoint says of files that were removed."""
        rows = pq.read_table(sorted(self.log.glob("*.checkpoint.parquet"))[-1])
        removed: list[object] = rows["remove"].drop_null().to_pylist()
        return removed

    def sweep(self) -> int:
        return self.tables.vacuum(TOPIC_ID, SWEEP_HOURS, dry_run=False, now_ms=self.clock.now)

    def versions(self) -> list[int]:
        return sorted(int(path.name[:20]) for path in self.log.glob("*.json"))


@pytest.fixture
def table(tmp_path: Path) -> Clocked:
    return Clocked(tmp_path)


def test_every_32nd_commit_is_a_checkpoint_whatever_is_installed(table: Clocked) -> None:
    table.move(70)

    assert [path.name[:20] for path in sorted(table.log.glob("*.checkpoint.parquet"))] == [
        f"{version:020d}" for version in (32, 64)
    ]
    assert '"version":64' in (table.log / "_last_checkpoint").read_text()
    assert agrees(table.root, table.snapshot)


class NoCheckpoints(DirectoryStore):
    """Takes none while `is_full`."""

    is_full = True

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        if self.is_full and key.endswith(".checkpoint.parquet"):
            raise Denied(f"no room: key={key}")
        super().create(key, parts)


def test_a_checkpoint_that_fails_is_logged_once_until_one_succeeds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The commits are made all the same."""
    store = NoCheckpoints(tmp_path)
    tables = Tables(str(tmp_path), store=store, clock=SetTime())
    snapshot = tables.create(TOPIC_ID, "orders")
    warnings = []
    with caplog.at_level("WARNING", logger="logstore.history.delta"):
        for store.is_full in (True, True, False, True):
            for _ in range(32):
                end = snapshot.end(0) or 0
                snapshot = moved(tables, snapshot, (0, end, end + 10))
            warnings.append(len(caplog.records))
    assert (snapshot.version, warnings) == (128, [1, 1, 1, 2])
    message = caplog.records[0].getMessage()
    assert "cannot write a checkpoint" in message and names.table_key(TOPIC_ID) in message


def test_a_damaged_file_with_the_name_of_a_checkpoint_does_not_end_checkpoints(
    table: Clocked,
) -> None:
    """Half of one that another engine wrote: readers must not be led to it either."""
    table.move(31)
    foreign = table.log / f"{32:020d}.checkpoint.parquet"
    foreign.write_bytes(b"PAR1 and no more")
    table.move()
    assert not (table.log / "_last_checkpoint").exists()
    assert directory_tables(table.root).snapshot(TOPIC_ID) == table.snapshot
    table.move(38)

    assert '"version":64' in (table.log / "_last_checkpoint").read_text()
    assert agrees(table.root, table.snapshot)
    assert directory_tables(table.root).snapshot(TOPIC_ID) == table.snapshot


def test_a_checkpoint_that_was_damaged_since_is_passed_over_while_its_entries_are_there(
    table: Clocked,
) -> None:
    table.move(63)
    earlier = table.log / f"{32:020d}.checkpoint.parquet"
    whole = earlier.read_bytes()
    earlier.write_bytes(b"PAR1 and no more")
    opened = directory_tables(table.root)
    assert opened.snapshot(TOPIC_ID) == table.snapshot
    opened.commit(table.snapshot, TableCommit({}, {}, (), (), "run"))

    assert '"version":64' in (table.log / "_last_checkpoint").read_text()
    (table.log / f"{64:020d}.checkpoint.parquet").write_bytes(b"PAR1 and no more")
    earlier.write_bytes(whole)
    assert directory_tables(table.root).snapshot(TOPIC_ID, version=60) is not None
    for version in range(40):  # which the damaged one stood for: version 32 is not the newest
        (table.log / f"{version:020d}.json").unlink()
    with pytest.raises(Corrupt, match="not a checkpoint"):
        directory_tables(table.root).snapshot(TOPIC_ID)
    with pytest.raises(Corrupt, match="not a checkpoint"):
        directory_tables(table.root).checkpoint(TOPIC_ID)


def test_no_entry_is_deleted_because_of_a_checkpoint_that_cannot_be_read(table: Clocked) -> None:
    table.move(70)
    (table.log / f"{64:020d}.checkpoint.parquet").write_bytes(b"PAR1 and no more")
    table.pass_ms(40 * DAY_MS)
    table.move(40)
    table.sweep()

    assert table.versions()[0] == 32


def test_delta_reads_a_log_whose_entries_are_all_below_our_checkpoint(table: Clocked) -> None:
    table.move(3, nameless=False)
    table.set_property("delta.deletedFileRetentionDuration", "interval 2 days")
    table.tables.checkpoint(TOPIC_ID)
    for version in table.versions()[:-1]:
        (table.log / f"{version:020d}.json").unlink()

    delta = delta_of(table.root)
    assert delta.metadata().configuration[DELETED_FILES] == "interval 2 days"
    assert delta.metadata().id == delta_of(table.root).metadata().id
    assert sorted(pa.table(delta.to_pyarrow_table())["offset"].to_pylist()) == list(range(30))
    assert agrees(table.root, table.snapshot)
    assert table.tables.snapshot(TOPIC_ID) == table.snapshot


def test_a_checkpoint_goes_on_from_one_of_delta_rs(table: Clocked) -> None:
    table.move(2, nameless=False)
    delta_of(table.root).optimize.compact()
    delta_of(table.root).create_checkpoint()
    found = table.tables.snapshot(TOPIC_ID)
    assert found is not None
    table.snapshot = found
    table.move(2, nameless=False)
    table.tables.checkpoint(TOPIC_ID)
    for version in table.versions()[:-1]:
        (table.log / f"{version:020d}.json").unlink()

    assert agrees(table.root, table.snapshot)
    assert sorted(pa.table(delta_of(table.root).to_pyarrow_table())["offset"].to_pylist()) == list(
        range(40)
    )


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_files_that_were_removed_stay_for_the_week_that_delta_promises(
    table: Clocked, is_checkpointed: bool
) -> None:
    table.move(nameless=False)
    table.pass_ms(3 * DAY_MS)
    table.drop_all_files()
    if is_checkpointed:
        table.tables.checkpoint(TOPIC_ID)
        assert len(table.removed_by_checkpoint()) == 1  # other engines' VACUUM goes by it
    table.pass_ms(3 * DAY_MS)
    table.move()
    table.pass_ms(3 * DAY_MS)

    assert table.sweep() == 0
    old = DeltaTable(table.folder, version=1)
    assert pa.table(old.to_pyarrow_table()).num_rows == 10
    table.pass_ms(2 * DAY_MS)
    assert table.sweep() == 1
    # Its name is forgotten then.
    table.move()
    table.tables.checkpoint(TOPIC_ID)
    assert table.removed_by_checkpoint() == []


def test_a_shorter_promise_counts_no_less_than_the_horizon(table: Clocked) -> None:
    table.set_property(DELETED_FILES, "interval 1 hour")
    table.move(nameless=False)
    table.drop_all_files()
    table.pass_ms(20 * HOUR_MS)

    assert table.sweep() == 0
    table.move()
    table.pass_ms(30 * HOUR_MS)
    assert table.sweep() == 1


def test_a_longer_promise_is_kept(table: Clocked) -> None:
    table.set_property(DELETED_FILES, "interval 30 days")
    table.move(nameless=False)
    table.drop_all_files()
    table.pass_ms(29 * DAY_MS)
    assert table.sweep() == 0

    table.move()
    table.pass_ms(2 * DAY_MS)
    assert table.sweep() == 1


def test_a_committer_with_a_clock_that_is_behind_ends_no_promise(table: Clocked) -> None:
    table.move(nameless=False)
    table.pass_ms(20 * DAY_MS)
    table.clock.now -= 19 * DAY_MS
    table.drop_all_files()
    table.clock.now += 19 * DAY_MS

    assert table.sweep() == 0
    table.pass_ms(6 * DAY_MS)
    assert table.sweep() == 0
    table.move()
    table.pass_ms(2 * DAY_MS)
    assert table.sweep() == 1


def test_a_promise_that_cannot_be_read_keeps_every_file(table: Clocked) -> None:
    table.set_property(DELETED_FILES, "interval 1 fortnight")
    table.move(nameless=False)
    table.drop_all_files()
    table.pass_ms(900 * DAY_MS)

    with pytest.raises(Refused, match=r"delta.deletedFileRetentionDuration=.*ALTER TABLE"):
        table.sweep()
    assert list(table.folder.glob("partition=0/*"))


def test_entries_go_after_thirty_days_and_only_below_a_checkpoint(table: Clocked) -> None:
    table.move(40)
    table.pass_ms(20 * DAY_MS)
    table.move(40)
    assert table.versions()[0] == 0
    table.pass_ms(11 * DAY_MS)
    table.move(20)
    table.sweep()

    assert table.versions() == list(range(32, 101))
    assert agrees(table.root, table.snapshot)
    assert table.tables.snapshot(TOPIC_ID) == table.snapshot


@pytest.mark.parametrize(
    ("name", "value", "oldest"),
    [
        (LOG_ENTRIES, "interval 90 days", 0),
        (LOG_ENTRIES, "interval 1 hour", 32),
        ("delta.enableExpiredLogCleanup", "false", 0),
    ],
)
def test_entries_stay_as_long_as_the_owner_says(
    table: Clocked, name: str, value: str, oldest: int
) -> None:
    table.set_property(name, value)
    table.move(40)
    table.pass_ms(40 * DAY_MS if oldest == 0 else 50 * HOUR_MS)
    table.move(30)
    table.sweep()

    assert table.versions()[0] == oldest


def test_a_log_without_its_hint_is_not_read_from_the_first_entry(table: Clocked) -> None:
    table.move(70)
    (table.log / "_last_checkpoint").unlink()
    (table.log / f"{5:020d}.json").write_text("{")

    assert table.tables.snapshot(TOPIC_ID) == table.snapshot
    table.tables.checkpoint(TOPIC_ID)
    assert '"version":70' in (table.log / "_last_checkpoint").read_text()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1000),
            st.sampled_from([("second", 1000), ("hour", HOUR_MS), ("day", DAY_MS)]),
        ),
        min_size=1,
    ),
    st.sampled_from(["interval ", "INTERVAL  ", ""]),
    st.sampled_from(["", "s"]),
)
def test_intervals_add_up(parts: list[tuple[int, tuple[str, int]]], front: str, many: str) -> None:
    text = front + " ".join(f"{number} {unit}{many}" for number, (unit, _) in parts)
    assert parse_interval(text) == sum(number * unit_ms for number, (_, unit_ms) in parts)


@pytest.mark.parametrize("text", ["", "interval", "7", "days 7", "-1 day", "1 day 2", "forever"])
def test_other_text_is_no_interval(text: str) -> None:
    assert parse_interval(text) is None
