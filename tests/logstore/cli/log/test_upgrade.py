"""`logstore upgrade`, as people type it. What `--finalize` waits for is in the tests of versions
beside each other."""

from pathlib import Path

from logstore.cli.command import FAILED, OK
from logstore.formats.keys import level_key
from logstore.version import VERSION
from tests.logstore.cli.conftest import Command
from tests.logstore.cli.fsck.test_fsck import change_row, row_of


def test_it_says_which_version_each_broker_is_of_and_what_comes_next(
    logstore: Command, written: Path
) -> None:
    change_row(written, "cluster", "cluster", format_level=1)
    answer = logstore("upgrade", "--url", written)
    assert answer.code == OK
    assert answer.out.splitlines()[0].split() == ["finalized", "format", "level", "1"]
    assert "level 2 brings" in answer.out
    assert f"{VERSION}  1 to 2" in answer.out
    assert "level 2 may be finalized" in answer.out

    shown = logstore("upgrade", "--url", written, "--json").json
    assert (shown["finalized_level"], shown["newest_level"]) == (1, 2)
    assert list(shown["brings"]) == ["2"]
    assert shown["brokers"]["1"]["level_max"] == 2
    assert shown["hindrances"] == []


def test_a_broker_of_the_release_before_keeps_the_level_down(
    logstore: Command, written: Path
) -> None:
    change_row(written, "cluster", "cluster", format_level=1)
    change_row(written, "broker", "1", level_max=1, version="")
    shown = logstore("upgrade", "--url", written)
    assert shown.code == OK
    assert "is of version 0.1.0 or older and reads levels 1 to 1" in shown.out
    assert "level 2 cannot be finalized yet" in shown.out

    refused = logstore("upgrade", "--url", written, "--finalize")
    assert refused.code == FAILED
    assert len(refused.err.splitlines()) == 1
    assert "format level 2 cannot be finalized: broker 1" in refused.err
    assert row_of(written, "cluster", "cluster")["format_level"] == 1
    assert not (written / level_key(2)).exists()


def test_finalizing_again_is_done_at_once(logstore: Command, written: Path) -> None:
    answer = logstore("upgrade", "--url", written, "--finalize")
    assert answer.code == OK
    assert "level 2 is finalized" in answer.out


def test_a_log_of_a_newer_version_is_refused_by_level_and_version(
    logstore: Command, written: Path
) -> None:
    change_row(written, "cluster", "cluster", format_level=9)
    answer = logstore("upgrade", "--url", written)
    assert answer.code == FAILED
    assert f"newer logstore: format_level=9 known=2 version={VERSION}" in answer.err
