"""A log of each release is read by this version: by the front door, fsck, restore, and a broker.

The logs are made by `python -m tests.golden.make_release`, and stay as they are.
"""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import logstore as front_door
from logstore.cli.command import OK
from tests.golden.make_release import TOPICS, broker_of, read, unpack
from tests.logstore.cli.conftest import Command
from tests.logstore.cli.fsck.test_fsck import row_of
from tests.releases import ROOT, Release, releases

KEPT_FOR_EVER = ("--set", "offsets.retention.minutes=2147483647")
"""Groups of these logs are idle since the release."""


@pytest.fixture(params=releases(), ids=lambda release: release.version)
def release(request: pytest.FixtureRequest) -> Release:
    found: Release = request.param
    return found


@pytest.fixture
def golden(release: Release, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The log, and what a client of the release read."""
    return tmp_path / "log", unpack(release.version, tmp_path / "log")


def rows_of(log: Path) -> Mapping[str, list[list[Any]]]:
    """By topic and partition, as `expected.json` has them."""
    found: dict[str, list[list[Any]]] = {}
    columns = ["partition", "offset", "timestamp", "key", "value", "headers"]
    with front_door.open(str(log)) as opened:
        for name, (partitions, _) in TOPICS.items():
            found |= {f"{name}-{number}": [] for number in range(partitions)}
            for row in opened.read(name, columns=columns).read_all().to_pylist():
                headers = [[one["key"], _text(one["value"])] for one in row["headers"] or []]
                at_ms = int(row["timestamp"].replace(tzinfo=datetime.UTC).timestamp() * 1000)
                line = [row["offset"], at_ms, _text(row["key"]), _text(row["value"]), headers]
                found[f"{name}-{row['partition']}"].append(line)
    return {key: sorted(rows, key=lambda row: row[0]) for key, rows in found.items()}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def test_every_record_is_read_from_segments_and_tables(
    golden: tuple[Path, dict[str, Any]],
) -> None:
    log, expected = golden
    assert rows_of(log) == expected["records"]


def test_it_is_sound(logstore: Command, golden: tuple[Path, dict[str, Any]]) -> None:
    answer = logstore("fsck", "--url", golden[0], "--data")
    assert answer.code == OK, answer.out


def test_its_level_is_that_of_its_release(
    logstore: Command, release: Release, golden: tuple[Path, dict[str, Any]]
) -> None:
    shown = logstore("upgrade", "--url", golden[0], "--json").json
    assert shown["finalized_level"] == release.format_level


@pytest.mark.slow
def test_a_lost_registry_is_restored_with_the_level_of_the_release(
    logstore: Command, release: Release, golden: tuple[Path, dict[str, Any]]
) -> None:
    log, expected = golden
    (log / "registry.db").unlink()
    answer = logstore("restore", "--url", log)
    assert answer.code == OK, answer.err
    assert row_of(log, "cluster", "cluster")["format_level"] == release.format_level
    assert rows_of(log) == expected["records"]
    assert logstore("fsck", "--url", log).code == OK


@pytest.mark.clients
def test_a_broker_serves_records_and_groups(golden: tuple[Path, dict[str, Any]]) -> None:
    log, expected = golden
    with broker_of(log, ROOT, KEPT_FOR_EVER) as bootstrap:
        assert read(bootstrap) == expected
