"""The lock of one broker on one machine, between real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logstore.errors import Refused
from logstore.wiring.host_lock import HostLock

HOLD = """
import sys
from pathlib import Path
from logstore.wiring.host_lock import HostLock
lock = HostLock(Path(sys.argv[1]))
print(lock.name, flush=True)
sys.stdin.read()
"""


def hold(path: Path) -> "subprocess.Popen[str]":
    """Another process that holds the lock, once it has said so."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said_by(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: "subprocess.Popen[str]") -> None:
    with process:
        process.kill()


def test_a_second_process_is_refused_with_the_name_of_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "broker-1.lock"
    other = hold(path)
    try:
        said_by(other)
        with pytest.raises(Refused, match=f"running already: pid={other.pid}"):
            HostLock(path)
    finally:
        end(other)


def test_a_killed_holder_leaves_the_very_lock_it_held(tmp_path: Path) -> None:
    """The successor holds the lock that its predecessor's row names: no need to wait."""
    path = tmp_path / "broker-1.lock"
    other = hold(path)
    name = said_by(other)
    end(other)
    lock = HostLock(path)

    assert lock.name == name
    assert path.read_text() == f"{os.getpid()}\n"
    lock.release()


def test_within_one_process_it_is_held_once(tmp_path: Path) -> None:
    lock = HostLock(tmp_path / "lock")
    with pytest.raises(Refused, match="running already"):
        HostLock(tmp_path / "lock")
    lock.release()
    HostLock(tmp_path / "lock").release()


def test_a_lock_file_made_again_is_another_lock(tmp_path: Path) -> None:
    """Deleting it under a living broker gives its name to no other."""
    path = tmp_path / "lock"
    held = HostLock(path)
    path.unlink()
    other = HostLock(path)

    assert other.name != held.name
    held.release()
    other.release()


def test_a_child_that_is_started_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = HostLock(tmp_path / "lock")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        lock.release()
        HostLock(tmp_path / "lock").release()
        child.kill()


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Refused, match="--state-dir"):
        HostLock(tmp_path / "file" / "lock")
