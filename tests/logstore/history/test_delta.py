"""Commits happen once, on the version they were made for, and other readers see the same table."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from logstore.errors import NotFound
from logstore.history.delta import Tables
from logstore.history.forms import names
from logstore.history.forms.snapshot import Snapshot, TableCommit, TableConflict
from tests.logstore.history.tables import (
    NOW_MS,
    OTHER_ID,
    TOPIC_ID,
    SetTime,
    a_file,
    directory_store,
    directory_tables,
    move,
    moved,
    some_rows,
    written,
)

WEEK_MS = 7 * 24 * 3_600_000
"""What a table promises its readers unless it says otherwise."""


def delta_of(root: Path) -> DeltaTable:
    return DeltaTable(root / names.table_key(TOPIC_ID))


def agrees(root: Path, snapshot: Snapshot) -> bool:
    """Whether delta-rs finds the same files and ends."""
    table = delta_of(root)
    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    theirs = {
        (one["path"], one["num_records"], one["size_bytes"], one["min.offset"], one["max.offset"])
        for one in found
    }
    ours = {
        (file.path, file.rows, file.size_bytes, file.min_offset, file.max_offset)
        for file in snapshot.all_files()
    }
    ends = {
        partition: table.transaction_version(names.app_id(TOPIC_ID, partition))
        for partition in snapshot.ends
    }
    return theirs == ours and ends == snapshot.ends and table.version() == snapshot.version


def test_a_topic_has_no_table_until_one_is_made(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    assert tables.snapshot(TOPIC_ID) is None

    made = tables.create(TOPIC_ID, "orders")
    assert made == tables.snapshot(TOPIC_ID) == tables.create(TOPIC_ID, "orders")
    assert (made.version, dict(made.ends), dict(made.files)) == (0, {}, {})
    assert tables.snapshot(OTHER_ID) is None
    said = delta_of(tmp_path).metadata().configuration
    assert said["logstore.topic"] == "orders"
    assert said["logstore.topic.id"] == TOPIC_ID.hex()


def test_a_commit_moves_ends_and_delta_sees_it(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    first = moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 10), (7, 100, 105))
    second = moved(tables, first, (0, 10, 30))

    assert tables.snapshot(TOPIC_ID) == second
    assert tables.snapshot(TOPIC_ID, version=1) == first
    assert (second.version, second.end(0), second.end(7), second.end(1)) == (2, 30, 105, None)
    assert (second.first(0), second.first(7), second.first(1)) == (0, 100, None)
    assert [file.min_offset for file in second.files_for(0, 9, 11)] == [0, 10]
    assert agrees(tmp_path, second)


def test_a_partition_may_have_an_end_without_a_file(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    commit = TableCommit(starts={3: 0}, ends={3: 50}, run="markers-only")
    moved_on = tables.commit(tables.create(TOPIC_ID, "orders"), commit)

    assert tables.snapshot(TOPIC_ID) == moved_on
    assert (moved_on.end(3), moved_on.first(3)) == (50, None)


def test_a_stale_commit_is_a_conflict_and_changes_nothing(tmp_path: Path) -> None:
    mine, yours = directory_tables(tmp_path), directory_tables(tmp_path)
    stale = mine.create(TOPIC_ID, "orders")
    newest = moved(yours, stale, (0, 0, 10), run="yours")

    for commit in (move((0, 0, 10), run="mine"), move((5, 0, 10), run="mine")):
        with pytest.raises(TableConflict, match="another commit"):
            mine.commit(stale, commit)
    assert mine.snapshot(TOPIC_ID) == newest
    assert agrees(tmp_path, newest)


def test_starts_that_are_not_the_tables_ends_are_a_conflict(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    first = moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 10))

    with pytest.raises(TableConflict, match="ends elsewhere"):
        moved(tables, first, (0, 9, 20))


def test_an_optimize_in_between_is_a_conflict(tmp_path: Path) -> None:
    tables, store = directory_tables(tmp_path), directory_store(tmp_path)
    before = tables.create(TOPIC_ID, "orders")
    for start in (0, 10):
        files = written(store, some_rows(start, start + 10), number=start)
        before = tables.commit(before, TableCommit({0: start}, {0: start + 10}, files, run="r"))
    delta_of(tmp_path).optimize.compact()

    with pytest.raises(TableConflict):
        moved(tables, before, (0, 20, 30))
    after = tables.snapshot(TOPIC_ID, known=before)
    assert after is not None and agrees(tmp_path, after)
    assert after.ends == before.ends and [file.rows for file in after.all_files()] == [20]
    assert agrees(tmp_path, moved(tables, after, (0, 20, 30)))


def test_merged_files_replace_the_small_ones_in_one_commit(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    first = moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 10), (1, 0, 5))
    second = moved(tables, first, (0, 10, 20))
    small = list(second.files[0])
    merged = tables.commit(
        second, TableCommit({}, {}, [a_file(0, 20, run="merge")], small, "merge")
    )

    assert [file.rows for file in merged.files[0]] == [20]
    assert merged.ends == second.ends
    assert tables.snapshot(TOPIC_ID) == merged == tables.snapshot(TOPIC_ID, known=first)
    assert agrees(tmp_path, merged)
    assert delta_of(tmp_path).history(1)[0]["operation"] == "OPTIMIZE"


def test_retention_takes_files_out_and_keeps_the_end(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    first = moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 10))
    kept = tables.commit(first, TableCommit({}, {}, (), list(first.files[0]), "retention"))

    assert (kept.end(0), kept.first(0)) == (10, None)
    assert tables.snapshot(TOPIC_ID) == kept
    assert agrees(tmp_path, kept)
    with pytest.raises(TableConflict, match="no such file"):
        tables.commit(kept, TableCommit({}, {}, (), list(first.files[0]), "again"))


def test_known_snapshots_are_given_back_or_gone_on_with(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    known = moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 10), (1, 0, 10))
    assert tables.snapshot(TOPIC_ID, known=known) is known

    newest = known
    for start in range(10, 200, 10):
        newest = moved(tables, newest, (0, start, start + 10))
    found = tables.snapshot(TOPIC_ID, known=known)
    assert found == newest
    assert found is not None and found.files[1] is known.files[1]


def test_a_table_with_checkpoints_opens_as_one_without(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    newest = tables.create(TOPIC_ID, "orders")
    seen = [newest]
    for start in range(0, 700, 10):
        newest = moved(tables, newest, (0, start, start + 10), (1000 + start, 0, 5))
        seen.append(newest)
    log = tmp_path / names.log_prefix(TOPIC_ID)
    assert len(list(log.glob("*.checkpoint.parquet"))) == 2
    assert tables.snapshot(TOPIC_ID) == newest
    assert agrees(tmp_path, newest)
    for version in (1, 31, 32, 33, 63, 65, 70):
        assert tables.snapshot(TOPIC_ID, version=version) == seen[version]
    with pytest.raises(NotFound):
        tables.snapshot(TOPIC_ID, version=71)

    (log / "_last_checkpoint").unlink()
    for entry in sorted(log.glob("*.json"))[:50]:
        entry.unlink()
    assert tables.snapshot(TOPIC_ID) == newest
    assert tables.snapshot(TOPIC_ID, known=seen[3]) == newest
    with pytest.raises(NotFound):
        tables.snapshot(TOPIC_ID, version=20)


def test_commits_tell_who_moved_what(tmp_path: Path) -> None:
    clock = SetTime()
    tables = directory_tables(tmp_path, clock)
    snapshot = tables.create(TOPIC_ID, "orders")
    for start in (0, 10):
        clock.now += 60_000
        snapshot = moved(tables, snapshot, (2, start, start + 10), run=f"run-{start}")
    facts = tables.commits(TOPIC_ID, 0)

    assert [fact.version for fact in facts] == [0, 1, 2]
    assert [fact.timestamp_ms - NOW_MS for fact in facts] == [0, 60_000, 120_000]
    assert [(fact.starts, fact.ends) for fact in facts] == [
        (None, None),
        ({2: 0}, {2: 10}),
        ({2: 10}, {2: 20}),
    ]
    assert [fact.run for fact in facts] == [None, "run-0", "run-10"]
    assert tables.commits(TOPIC_ID, 3) == []
    assert tables.version_at(TOPIC_ID, NOW_MS - 1) is None
    assert tables.version_at(TOPIC_ID, NOW_MS + 119_999) == 1
    assert tables.version_at(TOPIC_ID, NOW_MS + 120_000) == 2
    assert tables.version_at(OTHER_ID, NOW_MS) is None


def test_vacuum_deletes_what_no_late_version_names(tmp_path: Path) -> None:
    clock, store = SetTime(), directory_store(tmp_path)
    tables = directory_tables(tmp_path, clock)
    clock.now = max(NOW_MS, _modified(tmp_path))
    files = written(store, some_rows(0, 10))
    snapshot = tables.create(TOPIC_ID, "orders")
    snapshot = tables.commit(snapshot, TableCommit({0: 0}, {0: 10}, files, run="r"))
    merged = written(store, some_rows(0, 10), number=1)
    written(store, some_rows(0, 10), number=2, run="never-committed")
    clock.now += 3_600_000
    snapshot = tables.commit(snapshot, TableCommit({}, {}, merged, files, "merge"))

    assert tables.vacuum(TOPIC_ID, 2, dry_run=False, now_ms=clock.now) == 0
    clock.now += WEEK_MS + 2 * 3_600_000
    assert tables.vacuum(TOPIC_ID, 2, dry_run=True, now_ms=clock.now) == 2
    assert tables.vacuum(TOPIC_ID, 2, dry_run=False, now_ms=clock.now) == 2
    assert tables.vacuum(TOPIC_ID, 2, dry_run=False, now_ms=clock.now) == 0
    left = [info.key for info in store.list(names.table_key(TOPIC_ID) + "/partition")]
    assert left == [f"{names.table_key(TOPIC_ID)}/{merged[0].path}"]


def test_vacuum_spares_young_files_that_no_version_names(tmp_path: Path) -> None:
    """A run may be about to commit them."""
    clock, store = SetTime(), directory_store(tmp_path)
    tables = directory_tables(tmp_path, clock)
    modified_ms = _modified(tmp_path)
    clock.now = modified_ms - 4 * 3_600_000
    files = written(store, some_rows(0, 10))
    snapshot = tables.create(TOPIC_ID, "orders")
    tables.commit(snapshot, TableCommit({0: 0}, {0: 10}, files, run="r"))
    young = written(store, some_rows(10, 20), number=1, run="not-committed-yet")

    assert tables.vacuum(TOPIC_ID, 2, dry_run=False, now_ms=modified_ms) == 0
    assert f"{names.table_key(TOPIC_ID)}/{young[0].path}" in {
        info.key for info in store.list(names.table_key(TOPIC_ID) + "/partition")
    }
    assert tables.vacuum(TOPIC_ID, 2, dry_run=False, now_ms=modified_ms + WEEK_MS + 3_600_000) == 1


def _modified(root: Path) -> int:
    return int(root.stat().st_mtime * 1000)


def test_a_deleted_table_is_gone(tmp_path: Path) -> None:
    tables = directory_tables(tmp_path)
    moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 10))
    assert tables.delete_table(TOPIC_ID) == 2
    assert tables.snapshot(TOPIC_ID) is None
    assert tables.delete_table(TOPIC_ID) == 0


def test_names_of_tables_say_nothing_wrong(tmp_path: Path) -> None:
    tables: Any = directory_tables(tmp_path)
    assert isinstance(tables, Tables)
    assert names.partition_of(names.app_id(TOPIC_ID, 12), TOPIC_ID) == 12
    assert names.partition_of(names.app_id(OTHER_ID, 12), TOPIC_ID) is None
    assert names.partition_of("another/writer", TOPIC_ID) is None
    clean = names.clean_app_id(TOPIC_ID, 12)
    assert (names.partition_of(clean, TOPIC_ID), names.cleaned_partition_of(clean, TOPIC_ID)) == (
        None,
        12,
    )
    assert names.cleaned_partition_of(names.app_id(TOPIC_ID, 12), TOPIC_ID) is None
    assert names.cleaned_partition_of(clean, OTHER_ID) is None
    assert names.partition_of(f"logstore/{TOPIC_ID.hex()}/x", TOPIC_ID) is None
