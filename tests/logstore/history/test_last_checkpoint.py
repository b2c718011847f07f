"""`_last_checkpoint` of a table is a hint: absent, damaged or outdated, the log is the same."""

import shutil
from pathlib import Path

import pytest

from logstore.epoch.table_queries import held_in
from logstore.errors import Corrupt, NotFound
from logstore.formats.topic_partition import TopicPartition
from logstore.history.delta import Tables
from logstore.history.forms import names
from logstore.history.table_log import TableLog
from logstore.runners.retrying import RetryingStore
from tests.logstore.history.tables import (
    NOW_MS,
    TOPIC_ID,
    SetTime,
    directory_store,
    moved,
    stamped_tables,
)

MINUTE_MS = 60_000
HINTS = {
    "absent": None,
    "half": '{"version":6',
    "no-object": "[64]",
    "gone": '{"version":32,"size":70}',
    "of-parts-that-never-were": '{"version":64,"size":70,"parts":2}',
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The log of 70 commits, one a minute, cleaned below its checkpoint 64; and the time then."""
    root, clock = tmp_path_factory.mktemp("whole"), SetTime()
    tables = stamped_tables(root, clock)
    snapshot = tables.create(TOPIC_ID, "orders")
    for start in range(0, 700, 10):
        clock.now += MINUTE_MS
        snapshot = moved(tables, snapshot, (0, start, start + 10))
    log = root / names.log_prefix(TOPIC_ID)
    for version in range(64):
        (log / f"{version:020d}.json").unlink()
    for key in ("_last_checkpoint", f"{32:020d}.checkpoint.parquet"):
        (log / key).unlink()
    return root, clock.now


@pytest.fixture(params=HINTS)
def cleaned(
    request: pytest.FixtureRequest, whole: tuple[Path, int], tmp_path: Path
) -> tuple[Path, Tables, int]:
    """A copy, with one of the hints."""
    root, now_ms = whole
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    log, hint = tmp_path / names.log_prefix(TOPIC_ID), HINTS[request.param]
    if hint is not None:
        (log / "_last_checkpoint").write_text(hint)
    return log, stamped_tables(tmp_path, SetTime(now_ms)), now_ms


def the_log(root: Path) -> TableLog:
    return TableLog(RetryingStore.of(directory_store(root)), TOPIC_ID)


def test_versions_and_commits_are_those_that_the_log_has(
    cleaned: tuple[Path, Tables, int], tmp_path: Path
) -> None:
    _, tables, _ = cleaned
    log = the_log(tmp_path)
    assert (log.newest(), log.checkpoint_version()) == (70, 64)
    version, later = tables.version_and_later(TOPIC_ID, NOW_MS + 67 * MINUTE_MS)
    assert (version, [fact.version for fact in later]) == (67, [68, 69, 70])
    with pytest.raises(NotFound, match="removed"):
        tables.version_at(TOPIC_ID, NOW_MS + 60 * MINUTE_MS)
    with pytest.raises(NotFound, match="removed"):
        tables.commits(TOPIC_ID, 6)


def test_what_a_table_held_is_known_and_no_alarm_is_raised(
    cleaned: tuple[Path, Tables, int],
) -> None:
    """A broker that had verified version 5, and looks again when those after it were removed."""
    _, tables, now_ms = cleaned
    found = held_in(tables, {TOPIC_ID: 5}, 3 * MINUTE_MS, now_ms)
    assert (found.troubles, found.ends) == ([], {TopicPartition(TOPIC_ID, 0): 670})


def test_commits_after_a_checkpoint_count_without_its_own_entry(
    cleaned: tuple[Path, Tables, int],
) -> None:
    """Other engines may remove it."""
    log, tables, _ = cleaned
    (log / f"{64:020d}.json").unlink()
    version, later = tables.version_and_later(TOPIC_ID, NOW_MS + 67 * MINUTE_MS)
    assert (version, [fact.version for fact in later]) == (67, [68, 69, 70])
    with pytest.raises(NotFound, match="removed"):
        tables.version_at(TOPIC_ID, NOW_MS + 64 * MINUTE_MS)


def test_a_log_without_a_beginning_is_damaged(
    cleaned: tuple[Path, Tables, int], tmp_path: Path
) -> None:
    log, _, _ = cleaned
    (log / f"{64:020d}.checkpoint.parquet").unlink()
    with pytest.raises(Corrupt, match="no beginning"):
        the_log(tmp_path).newest()
