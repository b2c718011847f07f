"""`logstore restore` on a directory from which too much was deleted."""

from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK
from logstore.formats.keys import segment_key
from logstore.objects.directory import DirectoryStore
from tests.logstore.cli.conftest import Command


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker is alive that a longer watch could see."""
    monkeypatch.setattr("logstore.restore.run.WATCH_S", 0.01)


def test_deleted_segments_are_taken_back_and_reported(logstore: Command, written: Path) -> None:
    store = DirectoryStore(written)
    lost = [segment_key(1, 2), segment_key(2, 1)]
    for key in lost:
        store.delete(key)
    assert logstore("fsck", "--url", written).code == FAILED

    dry = logstore("restore", "--url", written, "--dry-run")
    assert dry.code == FAILED
    assert "without --dry-run they are taken back" in dry.err
    done = logstore("restore", "--url", written, "--json")
    assert (done.code, sorted(done.json["taken_back"])) == (OK, sorted(lost)), done.err
    assert logstore("fsck", "--url", written, "--data").code == OK
    again = logstore("restore", "--url", written)
    assert "deleted objects taken back  0" in again.out
