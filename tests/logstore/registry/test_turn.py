"""A process that is stopped in its turn: it loses it after a lease, and any other keeps its own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logstore.registry.sqlite import SqliteRows
from logstore.registry.turn import STOPPED_S, LockHolder, holder_in, state_in
from tests.children import child_of

DEADLINE_S = 15

HOLDER = """
import sys
from pathlib import Path
from logstore.registry.sqlite_file import SqliteFile
file = SqliteFile(Path(sys.argv[1]), "write")
with file.transaction():
    file.put_if("pk", "half", {"n": 1}, [], "w")
    print("in its turn", flush=True)
    sys.stdin.readline()
print("done", flush=True)
"""


@contextmanager
def in_its_turn(path: Path) -> Iterator["subprocess.Popen[Any]"]:
    command = [sys.executable, "-c", HOLDER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with child_of(command, **pipes, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in its turn\n"
        yield process


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[SqliteRows]:
    rows = SqliteRows(tmp_path / "registry.db", timeout_s=DEADLINE_S)
    rows.blocking().put_if("pk", "there", {"n": 1}, (), "w")
    yield rows
    rows.blocking().close()


@pytest.mark.slow
def test_a_process_stopped_in_a_transaction_holds_up_the_others_for_a_lease_alone(
    rows: SqliteRows, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with in_its_turn(tmp_path / "registry.db") as process:
        process.send_signal(signal.SIGSTOP)
        rows.blocking().put_if("pk", "next", {"n": 2}, (), "w")
        assert process.wait(DEADLINE_S) == -signal.SIGKILL
    assert rows.blocking().get("pk", "half") is None, "its transaction is undone"
    assert f"killed a process that was stopped while it held the registry: pid={process.pid}" in (
        caplog.text
    )


@pytest.mark.slow
def test_one_that_goes_on_in_time_keeps_its_turn(rows: SqliteRows, tmp_path: Path) -> None:
    with in_its_turn(tmp_path / "registry.db") as process:
        assert process.stdin is not None
        process.send_signal(signal.SIGSTOP)
        waiting = rows._owner.put_if("pk", "next", {"n": 2}, (), "w")
        with pytest.raises(TimeoutError):
            waiting.result(STOPPED_S / 2)
        process.send_signal(signal.SIGCONT)
        with pytest.raises(TimeoutError):  # longer than it may be stopped, all in all
            waiting.result(STOPPED_S * 1.5)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.wait(DEADLINE_S) == 0
        waiting.result(DEADLINE_S)
    assert rows.blocking().get("pk", "half") == {"n": 1, "wid": "w"}


def test_only_one_stopped_without_a_break_is_given_up() -> None:
    holder = LockHolder(7, "T")
    for _ in range(5):
        holder = holder.seen(7, "T", 0.5)
    assert holder.stopped_s == 2.5
    assert not holder.is_given_up
    assert holder.seen(7, "T", 0.5).is_given_up
    for pid, state in ((7, "S"), (8, "T"), (7, "t"), (7, "D")):
        assert holder.seen(pid, state, 0.5).seen(pid, state, 0.5).stopped_s <= 0.5


def test_the_kernel_names_who_holds_a_file_and_not_who_waits() -> None:
    device, inode = 0xFE00, 9977950
    lines = [
        "1: POSIX  ADVISORY  READ 11 fe:00:9977950 128 128",
        "2: FLOCK  ADVISORY  WRITE 12 fe:00:99779501 0 EOF",
        "3: FLOCK  ADVISORY  WRITE 13 fe:00:9977950 0 EOF",
        "3: -> FLOCK  ADVISORY  WRITE 14 fe:00:9977950 0 EOF",
    ]
    assert holder_in("\n".join(lines), device, inode) == 13
    assert holder_in("\n".join(lines[:2] + lines[3:]), device, inode) is None
    hidden = lines[2].replace(" 13 ", " 0 ")  # of another PID namespace
    assert holder_in(hidden, device, inode) is None


def test_the_state_of_a_process_is_read_behind_its_name() -> None:
    assert state_in("12 (a) T (b) T 1 2 3") == "T"
    assert state_in("12 (python3) S 1 2 3") == "S"
