"""The SQLite registry: its file, its queue, and what its errors mean."""

import asyncio
import fcntl
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from logstore.errors import ConditionFailed, Corrupt, Invalid, Refused, Retryable
from logstore.ports.registry import Comparison, RowAbsent, RowExists
from logstore.registry.sqlite import BlockingSqliteRows, SqliteRows
from logstore.registry.sqlite_file import SCHEMA_VERSION, Mode, SqliteFile
from logstore.registry.sqlite_owner import SqliteOwner

DEADLINE_S = 30
PAGE_BYTES = 24 + 4096  # of one page in the write-ahead log


@contextmanager
def opened(
    path: Path, mode: Mode = "create", timeout_s: float = 10.0
) -> Iterator[BlockingSqliteRows]:
    rows = SqliteRows(path, mode, timeout_s=timeout_s).blocking()
    try:
        yield rows
    finally:
        rows.close()


@contextmanager
def turn_taken(path: Path) -> Iterator[None]:
    """As if another process were writing all the while."""
    with Path(f"{path}-turn").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A registry file with one row."""
    path = tmp_path / "registry.db"
    with opened(path) as rows:
        rows.put_if("pk", "sk", {"n": 1}, (), "w1")
    return path


def test_rows_are_there_after_closing_and_opening(path: Path) -> None:
    for mode in ("create", "write", "read"):
        with opened(path, mode) as rows:
            assert rows.get("pk", "sk") == {"n": 1, "wid": "w1"}


def test_both_faces_are_of_the_same_rows(path: Path) -> None:
    async def scenario() -> None:
        rows = SqliteRows(path)
        blocking = rows.blocking()
        await rows.update_if("pk", "sk", {"n": 2}, (), "w2")
        assert blocking.get("pk", "sk") == await rows.get("pk", "sk") == {"n": 2, "wid": "w2"}
        await rows.close()
        await rows.close()
        with pytest.raises(Invalid):
            blocking.get("pk", "sk")

    asyncio.run(scenario())


def test_the_file_commits_durably_and_says_what_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert connection.execute("SELECT * FROM rows").fetchall() == [
            ("pk", "sk", '{"n":1,"wid":"w1"}')
        ]
    file = SqliteFile(path, "write")
    assert file._number("PRAGMA synchronous") == 2  # FULL
    file.close()


def test_a_missing_file_is_made_only_where_asked(tmp_path: Path) -> None:
    for mode in ("write", "read"):
        with opened(tmp_path / "none.db", mode) as rows, pytest.raises(Refused):
            rows.get("pk", "sk")
    assert list(tmp_path.iterdir()) == []
    with opened(tmp_path / "no folder/none.db") as rows, pytest.raises(Refused, match="folder"):
        rows.get("pk", "sk")


def test_a_reader_cannot_write(path: Path) -> None:
    with opened(path, "read") as rows:
        with pytest.raises(Refused):
            rows.put_if("pk", "sk", {"n": 2}, (), "w2")
        assert rows.get("pk", "sk") == {"n": 1, "wid": "w1"}


def test_a_reader_sees_what_a_writer_commits_concurrently(path: Path) -> None:
    with opened(path, "read") as reader, opened(path) as writer:
        for number in range(5):
            writer.update_if("pk", "sk", {"n": number}, (), "w")
            assert (reader.get("pk", "sk") or {})["n"] == number


@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_not_sqlite_is_refused_with_what_to_do(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "registry.db").write_bytes(content)
    with opened(tmp_path / "registry.db") as rows:
        for _ in range(2):
            with pytest.raises(Refused, match="restore"):
                rows.get("pk", "sk")
    assert (tmp_path / "registry.db").read_bytes() == content


def test_a_damaged_file_is_refused_with_what_to_do(path: Path) -> None:
    with opened(path) as rows:
        for number in range(300):
            rows.put_if("pk", f"{number}", {"data": b"x" * 300}, (), "w")
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = b"\xee" * (len(data) - 4096 * 2)
    path.write_bytes(data)
    with opened(path) as rows, pytest.raises(Refused, match="restore"):
        rows.query("pk", "", limit=1000)


def test_the_database_of_another_program_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE rows (a)")
    before = path.read_bytes()
    with opened(path) as rows, pytest.raises(Refused, match="not a logstore registry"):
        rows.put_if("pk", "sk", {}, (), "w")
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with opened(path) as rows, pytest.raises(Refused, match="newer"):
        rows.get("pk", "sk")


def test_a_row_that_cannot_be_decoded_is_corrupt_and_hurts_no_other(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO rows VALUES ('pk', 'bad', '[1]')")
    with opened(path) as rows:
        with pytest.raises(Corrupt):
            rows.get("pk", "bad")
        with pytest.raises(Corrupt):
            rows.update_if("pk", "bad", {"n": 1}, (), "w")
        assert rows.get("pk", "sk") == {"n": 1, "wid": "w1"}


def test_an_unfinished_creation_is_finished_by_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "registry.db").touch()
    with opened(tmp_path / "registry.db") as rows:
        rows.put_if("pk", "sk", {"n": 1}, (RowAbsent(),), "w")


def test_a_file_that_fails_is_opened_again_by_the_next_call(path: Path) -> None:
    with opened(path, "write") as rows:
        good = path.read_bytes()
        path.write_bytes(b"x" * 5000)
        with pytest.raises(Refused):
            rows.get("pk", "sk")
        path.write_bytes(good)
        assert rows.get("pk", "sk") == {"n": 1, "wid": "w1"}


def test_waiting_writes_share_one_commit_and_each_has_its_own_verdict(path: Path) -> None:
    owner = SqliteOwner(path, "write")
    owner.put_if("pk", "warm", {}, (), "w").result(DEADLINE_S)
    log = Path(f"{path}-wal")
    before = log.stat().st_size
    with turn_taken(path):
        first = owner.put_if("pk", "first", {}, (), "w")
        writes = [
            owner.put_if("pk", f"{n % 30}", {"n": n}, (RowAbsent(),), f"w{n}") for n in range(50)
        ]
        refused = owner.delete_if("pk", "none", ())
    wait([first, *writes, refused], DEADLINE_S)
    assert first.result() is None
    assert [write.exception() is None for write in writes] == [True] * 30 + [False] * 20
    assert all(isinstance(write.exception(), ConditionFailed) for write in writes[30:])
    assert isinstance(refused.exception(), ConditionFailed)
    assert len(owner.query("pk", "", None, 100).result(DEADLINE_S)) == 33
    # 33 commits of their own would write at least 33 pages.
    assert (log.stat().st_size - before) // PAGE_BYTES < 10
    owner.close().result(DEADLINE_S)


def test_reads_do_not_wait_for_the_turn_of_writers(path: Path) -> None:
    owner = SqliteOwner(path, "write")
    with turn_taken(path):
        assert owner.get("pk", "sk").result(DEADLINE_S) == {"n": 1, "wid": "w1"}
    owner.close().result(DEADLINE_S)


def test_refused_conditions_alone_write_nothing(path: Path) -> None:
    with opened(path) as rows:
        rows.put_if("pk", "warm", {}, (), "w")
        before = Path(f"{path}-wal").stat()
        for _ in range(3):
            with pytest.raises(ConditionFailed):
                rows.put_if("pk", "sk", {}, (RowAbsent(),), "w")
        after = Path(f"{path}-wal").stat()
        assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def test_a_call_that_timed_out_in_the_queue_never_happens(path: Path) -> None:
    async def scenario() -> None:
        rows = SqliteRows(path, timeout_s=0.05)
        with turn_taken(path):
            for _ in range(2):
                with pytest.raises(Retryable):
                    await rows.update_if("pk", "sk", {"n": 2}, (), "w2")
            with pytest.raises(Retryable):
                rows.blocking().put_if("pk", "sk", {"n": 3}, (), "w3")
        patient = SqliteRows(path)
        await patient.put_if("pk", "other", {}, (), "w4")
        assert await patient.get("pk", "sk") == {"n": 1, "wid": "w1"}
        await rows.close()
        await patient.close()

    asyncio.run(scenario())


def test_a_cancelled_call_leaves_the_queue_and_the_loop_in_order(path: Path) -> None:
    async def scenario() -> None:
        rows = SqliteRows(path)
        await rows.get("pk", "sk")
        with turn_taken(path):
            async with asyncio.TaskGroup() as tasks:
                call = tasks.create_task(rows.update_if("pk", "sk", {"n": 2}, (), "w2"))
                await rows.get("pk", "sk")
                call.cancel()
        await rows.put_if("pk", "other", {}, (), "w3")
        assert await rows.get("pk", "sk") == {"n": 1, "wid": "w1"}
        await rows.close()

    asyncio.run(scenario())


def test_closing_answers_what_was_queued_before(path: Path) -> None:
    owner = SqliteOwner(path, "write")
    writes = [owner.put_if("pk", f"{n}", {}, (), "w") for n in range(600)]
    owner.close().result(DEADLINE_S)
    assert all(write.done() and write.exception() is None for write in writes)


def test_several_registries_of_one_process_lose_no_update(path: Path) -> None:
    def raise_it(number: int) -> None:
        with opened(path) as rows:
            for turn in range(25):
                while True:
                    row = rows.get("pk", "sk") or {}
                    n = row["n"]
                    assert isinstance(n, int)
                    try:
                        rows.update_if(
                            "pk", "sk", {"n": n + 1}, (Comparison("n", "=", n),), f"{number}/{turn}"
                        )
                    except ConditionFailed:
                        continue
                    break

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(raise_it, range(4)))
    with opened(path) as rows:
        assert (rows.get("pk", "sk") or {})["n"] == 101


@pytest.mark.slow
def test_several_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    copies = multiprocessing.get_context("spawn")
    path = tmp_path / "registry.db"
    with copies.Pool(4) as pool:
        assert sum(pool.map(_try_first, [path] * 8)) == 1
    with opened(path, "write") as rows:
        rows.put_if("pk", "sk", {"n": 2}, (RowExists(),), "w")
    shutil.rmtree(tmp_path)


def _try_first(path: Path) -> bool:
    with opened(path) as rows:
        try:
            rows.put_if("pk", "sk", {"n": 1}, (RowAbsent(),), f"{os.getpid()}")
        except ConditionFailed:
            return False
        return True
