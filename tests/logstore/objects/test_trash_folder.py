"""The trash of a directory: for a day, bounded, never in the way of freeing a disk."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from logstore.objects.directory import DirectoryStore
from logstore.objects.trash_folder import PURGED_TOGETHER, SAME_KEY_MAX
from tests.logstore.history.tables import SetTime

HOUR_MS = 3_600_000


class Clocked:
    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, SetTime()
        self.store = DirectoryStore(root, clock=self.clock)
        self.number = 0

    def delete_one(self) -> str:
        self.number += 1
        key = f"chains/aa/{self.number}"
        self.store.create(key, [b"x"])
        self.store.delete(key)
        return key

    def kept(self) -> list[str]:
        return [one.key for one in self.store.deleted("")]

    def hours(self) -> int:
        return len(list((self.root / ".trash").iterdir()))


@pytest.fixture
def trash(tmp_path: Path) -> Clocked:
    return Clocked(tmp_path)


def test_what_is_deleted_stays_for_a_day_and_no_longer(trash: Clocked) -> None:
    first = trash.delete_one()
    for _ in range(24):
        trash.clock.now += HOUR_MS
        trash.delete_one()
    assert first in trash.kept()

    trash.clock.now += HOUR_MS
    trash.delete_one()
    assert first not in trash.kept()
    assert trash.hours() == 25


def test_hours_without_deletes_are_made_up_for(trash: Clocked) -> None:
    for _ in range(24):
        trash.delete_one()
        trash.clock.now += HOUR_MS
    trash.clock.now += 100 * HOUR_MS
    counts = []
    for _ in range(14):
        trash.delete_one()
        counts.append(trash.hours())
        trash.clock.now += HOUR_MS
    assert counts[:3] == [24 + 1 - PURGED_TOGETHER, 24 + 2 - 2 * PURGED_TOGETHER, 21]
    assert trash.hours() == 14


def test_a_clock_that_jumps_a_year_does_not_empty_the_trash(trash: Clocked) -> None:
    for _ in range(24):
        trash.delete_one()
        trash.clock.now += HOUR_MS
    before = set(trash.kept())
    trash.clock.now += 365 * 24 * HOUR_MS
    for _ in range(100):
        trash.delete_one()

    assert len(before & set(trash.kept())) == 24 - PURGED_TOGETHER
    trash.clock.now -= 365 * 24 * HOUR_MS  # it is put right
    trash.delete_one()
    assert len(before & set(trash.kept())) == 24 - PURGED_TOGETHER


def test_one_key_fills_the_trash_no_more_than_so_often(trash: Clocked) -> None:
    for _ in range(SAME_KEY_MAX + 5):
        trash.store.create("key", [b"x"])
        trash.store.delete("key")
    assert len(trash.kept()) == SAME_KEY_MAX


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EXDEV, errno.EDQUOT])
def test_what_cannot_be_kept_is_deleted(
    trash: Clocked, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As on a full disk, or where a folder of the log lies on another file system."""
    trash.store.create("key", [b"x"])

    def link(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        trash.store.delete("key")
    assert not list(trash.store.list(""))
    assert not trash.kept()


def test_what_another_user_owns_is_kept_too(
    trash: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fs.protected_hardlinks, as most systems have it; root is not held to it."""

    def link(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    for data in (b"first", b"second"):
        trash.store.create("key", [data])
        with monkeypatch.context() as patch:
            patch.setattr(os, "link", link)
            trash.store.delete("key")
    first, _ = trash.store.deleted("")
    assert trash.store.undelete(first)
    assert trash.store.get("key") == b"first"


def test_the_trash_may_be_emptied_by_hand(trash: Clocked) -> None:
    import shutil

    trash.delete_one()
    shutil.rmtree(trash.root / ".trash")
    last = trash.delete_one()
    assert trash.kept() == [last]
