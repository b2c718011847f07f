"""`logstore restore` on a directory from which too much was deleted."""

import asyncio
import random
from pathlib import Path

import pytest

from broker.process.number import free_number
from logstore.cli.command import FAILED, OK
from logstore.formats.keys import segment_key
from logstore.objects.directory import DirectoryStore
from logstore.stores.backends import EMBEDDED_REGISTRY
from logstore.wiring.open import open_existing
from tests.logstore.cli.conftest import Command
from tests.logstore.waits import Waits


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


async def _take_number(directory: Path) -> int:
    """As `logstore serve --broker auto` does before it starts, and ends at once."""
    opened = await open_existing(str(directory), clock=Waits(), rng=random.Random(0))
    try:
        taken = await free_number(opened)
        taken.lock.release()
        return taken.number
    finally:
        await opened.close()


@pytest.mark.parametrize("is_lost", [False, True])
def test_broker_numbers_are_drawn_on_after_a_restore(
    logstore: Command, written: Path, is_lost: bool
) -> None:
    """Rows of numbers are in no chain: a lost registry loses them, an older one keeps them."""
    before = asyncio.run(_take_number(written))
    if is_lost:
        for path in written.glob(f"{EMBEDDED_REGISTRY}*"):
            path.unlink()
    restored = logstore("restore", "--url", written)
    assert restored.code == OK, restored.err

    after = asyncio.run(_take_number(written))
    assert after == (1 if is_lost else before)
    assert logstore("fsck", "--url", written, "--data").code == OK
