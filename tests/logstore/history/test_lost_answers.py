"""A commit whose answer is lost is found to be one's own, and made once."""

from pathlib import Path
from random import Random

import pytest

from logstore.errors import OutcomeUnknown, Retryable
from logstore.history.delta import Tables
from logstore.history.durable_ends import held_ends
from logstore.history.forms import names
from logstore.history.forms.snapshot import TableConflict
from logstore.objects.directory import DirectoryStore
from logstore.objects.fault_draws import Faults, StoreFaults
from logstore.objects.faulty import FaultyBlockingStore
from logstore.runners.retrying import RetryingStore
from tests.logstore.history.tables import (
    TOPIC_ID,
    SetTime,
    directory_tables,
    move,
    moved,
    some_rows,
    written,
)

BAD_DAYS = StoreFaults(
    put_lost=0.15,
    put_answer_lost=0.2,
    put_late=0.1,
    put_doubled=0.0,
    put_conflict=0.1,
    throttled=0.05,
    get_failed=0.1,
)


def troubled_store(root: Path, clock: SetTime, rng: Random) -> RetryingStore:
    def sleep_s(seconds: float) -> None:
        clock.now += int(seconds * 1000)

    faults = Faults(BAD_DAYS, rng, clock)
    store = FaultyBlockingStore(DirectoryStore(root), faults, sleep_s)
    return RetryingStore(store, rng, sleep_s)


@pytest.mark.slow
@pytest.mark.seeds(10)
def test_two_runs_on_a_bad_store_move_every_offset_once(tmp_path: Path, seed: int) -> None:
    rng, clock = Random(seed), SetTime()
    runs = [
        Tables(str(tmp_path), store=troubled_store(tmp_path, clock, rng), clock=clock)
        for _ in range(2)
    ]
    runs[0].create(TOPIC_ID, "orders")
    messages: list[str] = []
    for number in range(40):
        tables, name = runs[number % 2], f"run-{number}"
        try:
            before = tables.snapshot(TOPIC_ID)
            assert before is not None
            if rng.random() < 0.3:  # the other one is quicker
                moved(runs[(number + 1) % 2], before, _next(before.end(0)), run=f"quick-{number}")
                messages.append(f"quick-{number}")
            moved(tables, before, _next(before.end(0)), run=name)
            messages.append(name)
        except (TableConflict, OutcomeUnknown, Retryable):
            continue

    sound = directory_tables(tmp_path, clock)
    newest = sound.snapshot(TOPIC_ID)
    assert newest is not None
    made = [fact.run for fact in sound.commits(TOPIC_ID, 1)]
    assert len(made) == len(set(made)) == newest.version > 10
    assert set(messages) <= set(made)
    assert newest.end(0) == 10 * newest.version
    assert [file.min_offset for file in newest.files[0]] == list(range(0, newest.version * 10, 10))
    assert held_ends(sound, [TOPIC_ID], 0, clock.now).troubles == []


def _next(end: int | None) -> tuple[int, int, int]:
    return 0, end or 0, (end or 0) + 10


def test_the_same_commit_again_is_its_own_success(tmp_path: Path) -> None:
    clock = SetTime()
    tables = directory_tables(tmp_path, clock)
    before = tables.create(TOPIC_ID, "orders")
    commit = move((0, 0, 10), run="run-1")
    made = tables.commit(before, commit)
    clock.now += 1000  # another entry, byte for byte

    assert tables.commit(before, commit) == made
    with pytest.raises(TableConflict):
        tables.commit(before, move((0, 0, 10), run="run-2"))
    assert tables.snapshot(TOPIC_ID) == made
    assert not (tmp_path / names.entry_key(TOPIC_ID, 2)).exists()


def test_data_files_are_stored_once_on_a_bad_store(tmp_path: Path) -> None:
    clock, rng = SetTime(), Random(5)
    store = troubled_store(tmp_path, clock, rng)
    files = [
        file
        for number in range(20)
        for file in written(store, some_rows(number * 10, number * 10 + 10), number=number)
    ]
    assert len(files) == 20
    sound = DirectoryStore(tmp_path)
    assert len(list(sound.list(names.table_key(TOPIC_ID)))) == 20
