"""What may be trimmed: only what the table held a grace ago, holds now, and never lost between."""

import json
from pathlib import Path

import pytest

from logstore.formats.topic_partition import TopicPartition
from logstore.history.delta import Tables
from logstore.history.durable_ends import held_ends
from logstore.history.forms import names
from logstore.history.forms.snapshot import Snapshot, TableCommit
from tests.logstore.history.tables import (
    NOW_MS,
    OTHER_ID,
    TOPIC_ID,
    SetTime,
    StampedStore,
    moved,
    stamped_tables,
)

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> SetTime:
    return SetTime()


@pytest.fixture
def tables(tmp_path: Path, clock: SetTime) -> Tables:
    return stamped_tables(tmp_path, clock)


def held(tables: Tables, clock: SetTime) -> dict[int, int]:
    found = held_ends(tables, [TOPIC_ID, OTHER_ID], HOUR_MS, clock.now)
    assert found.troubles == []
    return {partition: end for (_, partition), end in found.ends.items()}


def trouble(tables: Tables, clock: SetTime) -> str:
    found = held_ends(tables, [OTHER_ID, TOPIC_ID], HOUR_MS, clock.now)
    assert found.ends == {}
    (line,) = found.troubles
    assert names.table_key(TOPIC_ID) in line
    return line


def made(tables: Tables, clock: SetTime) -> Snapshot:
    """Commits at minutes 0, 10, 20 and 70."""
    snapshot = tables.create(TOPIC_ID, "orders")
    for minute, spans in (
        (10, [(0, 0, 100), (1, 50, 60)]),
        (20, [(0, 100, 200)]),
        (70, [(0, 200, 300), (2, 0, 5)]),
    ):
        clock.now = NOW_MS + minute * 60_000
        snapshot = moved(tables, snapshot, *spans, run=f"run-{minute}")
    return snapshot


def test_what_was_moved_a_grace_ago_is_held(tables: Tables, clock: SetTime) -> None:
    made(tables, clock)
    assert held(tables, clock) == {0: 100, 1: 60}
    clock.now = NOW_MS + 80 * 60_000
    assert held(tables, clock) == {0: 200, 1: 60}
    clock.now = NOW_MS + 130 * 60_000
    assert held(tables, clock) == {0: 300, 1: 60, 2: 5}


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_committer_whose_clock_is_behind_makes_nothing_older(
    tmp_path: Path, tables: Tables, clock: SetTime, is_checkpointed: bool
) -> None:
    snapshot = made(tables, clock)
    store = StampedStore(tmp_path, clock)
    behind = Tables(str(tmp_path), store=store, clock=SetTime(NOW_MS - 48 * HOUR_MS))
    moved(behind, snapshot, (0, 300, 400))
    if is_checkpointed:  # and another engine removed all entries
        tables.checkpoint(TOPIC_ID)
        for entry in (tmp_path / names.log_prefix(TOPIC_ID)).glob("*.json"):
            entry.unlink()
    assert held(tables, clock) == ({} if is_checkpointed else {0: 100, 1: 60})
    clock.now += HOUR_MS
    assert held(tables, clock) == {0: 400, 1: 60, 2: 5}


def test_a_table_of_one_that_is_behind_holds_nothing_at_first(
    tmp_path: Path, tables: Tables, clock: SetTime
) -> None:
    store = StampedStore(tmp_path, clock)
    behind = Tables(str(tmp_path), store=store, clock=SetTime(NOW_MS - 48 * HOUR_MS))
    moved(behind, behind.create(TOPIC_ID, "orders"), (0, 0, 100))
    assert held(tables, clock) == {}


def test_a_young_table_and_none_hold_nothing(tables: Tables, clock: SetTime) -> None:
    assert held(tables, clock) == {}
    moved(tables, tables.create(TOPIC_ID, "orders"), (0, 0, 100))
    assert held(tables, clock) == {}


def test_merging_and_retention_change_nothing_of_what_is_held(
    tables: Tables, clock: SetTime
) -> None:
    snapshot = made(tables, clock)
    tables.commit(snapshot, TableCommit({}, {}, (), list(snapshot.files[0]), "retention"))
    clock.now += 2 * HOUR_MS
    assert held(tables, clock) == {0: 300, 1: 60, 2: 5}


def test_topics_are_distinguished(tables: Tables, clock: SetTime) -> None:
    for topic_id, end in ((TOPIC_ID, 10), (OTHER_ID, 20)):
        moved(tables, tables.create(topic_id, "t"), (0, 0, end))
    clock.now += 2 * HOUR_MS
    assert held_ends(tables, [TOPIC_ID, OTHER_ID], HOUR_MS, clock.now).ends == {
        TopicPartition(TOPIC_ID, 0): 10,
        TopicPartition(OTHER_ID, 0): 20,
    }


@pytest.mark.slow
def test_many_commits_are_followed_back(tables: Tables, clock: SetTime) -> None:
    snapshot = tables.create(TOPIC_ID, "orders")
    for minute in range(150):
        clock.now = NOW_MS + minute * 60_000
        snapshot = moved(tables, snapshot, (0, minute, minute + 1))
    for ago in (0, 1, 59, 100, 149):
        found = held_ends(tables, [TOPIC_ID], ago * 60_000, clock.now)
        assert (found.ends, found.troubles) == ({TopicPartition(TOPIC_ID, 0): 150 - ago}, [])


def test_a_log_that_was_cleaned_holds_nothing_until_it_goes_back_a_grace(
    tmp_path: Path, tables: Tables, clock: SetTime
) -> None:
    made(tables, clock)
    tables.checkpoint(TOPIC_ID)
    for version in range(3):
        (tmp_path / names.entry_key(TOPIC_ID, version)).unlink()
    assert held(tables, clock) == {}
    clock.now += HOUR_MS
    assert held(tables, clock) == {0: 300, 1: 60, 2: 5}
    (tmp_path / names.entry_key(TOPIC_ID, 3)).unlink()
    assert held(tables, clock) == {0: 300, 1: 60, 2: 5}


def test_a_commit_that_was_overwritten_is_an_alarm(
    tmp_path: Path, tables: Tables, clock: SetTime
) -> None:
    """As Delta's own LogStore does on s3a: version 2 was ours, then another writer's."""
    made(tables, clock)
    entry = tmp_path / names.entry_key(TOPIC_ID, 2)
    entry.chmod(0o644)
    entry.write_text(json.dumps({"commitInfo": {"timestamp": clock.now, "operation": "OPTIMIZE"}}))
    assert "does not begin where" in trouble(tables, clock)


def test_the_last_commit_overwritten_holds_only_what_is_left(
    tmp_path: Path, tables: Tables, clock: SetTime
) -> None:
    made(tables, clock)
    entry = tmp_path / names.entry_key(TOPIC_ID, 3)
    entry.chmod(0o644)
    entry.write_text(json.dumps({"commitInfo": {"timestamp": clock.now, "operation": "OPTIMIZE"}}))
    clock.now = NOW_MS + 130 * 60_000
    assert held(tables, clock) == {0: 200, 1: 60}


def test_a_table_that_was_turned_back_is_an_alarm(
    tmp_path: Path, tables: Tables, clock: SetTime
) -> None:
    made(tables, clock)
    entry = tmp_path / names.entry_key(TOPIC_ID, 4)
    entry.write_text(json.dumps({"commitInfo": {"timestamp": clock.now, "operation": "RESTORE"}}))
    assert "restored to an older version" in trouble(tables, clock)


def test_a_log_that_is_damaged_is_an_alarm(tmp_path: Path, tables: Tables, clock: SetTime) -> None:
    made(tables, clock)
    entry = tmp_path / names.entry_key(TOPIC_ID, 3)
    entry.chmod(0o644)
    entry.write_text("{")
    assert "cannot be trusted" in trouble(tables, clock)
