"""A server as a child process of a test: installed once, started on a free port, stopped after.

Ports: test processes run side by side, and two that are seeded alike draw the same numbers. Each
port that is given out is locked, by a file of its number, until the process that has it ends.
"""

import fcntl
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

READY_S, STOP_S = 60.0, 20.0
# Below the ports that Linux gives to outgoing connections: a client that tries again and again to
# reach a dead broker's port there may end up connected to itself.
PORTS = range(12_000, 30_000)
_DONE = ".done"
_held: list[int] = []
"""Descriptors of the locks of the ports given out: closed when this process ends."""


def cache_folder(name: str) -> Path:
    """Where what was installed is kept between runs, outside the checkout."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "logstore"
    return Path(os.environ.get("LOGSTORE_CACHE", default)) / name


def is_installed(folder: Path) -> bool:
    return (folder / _DONE).exists()


def install_once(
    folder: Path, install: Callable[[], None], works: Callable[[], bool] = lambda: True
) -> None:
    """Have `install` fill `folder`, unless it was; test processes may come here together.

    A folder that was filled and does not work any more, or never did, is emptied and filled again.
    Raises `FileNotFoundError` where it does not work then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_installed(folder) and works():
            return
        for path in folder.iterdir():
            if path.name != ".lock":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        install()
        if not works():
            raise FileNotFoundError(f"what was fetched does not start: {folder}")
        (folder / _DONE).touch()


@contextmanager
def running_child(
    command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """The process, once it accepts connections on `port` of this machine.

    Raises `RuntimeError` with the end of its log when it does not.
    """
    with log.open("wb") as out:
        child = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env={**os.environ, **(environment or {})},
        )
    try:
        deadline_s = time.monotonic() + READY_S
        while not _accepts(port):
            if child.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-2000:]}")
            time.sleep(0.02)
        yield child
    finally:
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(STOP_S)


def free_port(rng: random.Random | None = None) -> int:
    """A port of 127.0.0.1 that nothing listens on and no other test process has been given.

    No other is given it before this process ends, also while the server on it is down. `rng`
    gives one number, however many ports are taken: what it gives next is the same in every run.
    """
    tries = random.Random(rng.random() if rng else None)
    while True:
        port = tries.choice(PORTS)
        if _hold(port):
            return port


def free_neighbours(count: int) -> int:
    """The first of `count` such ports that follow each other."""
    while True:
        first = free_port()
        if all(_hold(first + n) for n in range(1, count)):
            return first


def _hold(port: int) -> bool:
    folder = Path(tempfile.gettempdir()) / f"logstore-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock)
        return False
    _held.append(lock)
    return True


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
