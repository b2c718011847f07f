"""A server as a child process of a test: installed once, started on a free port, stopped after."""

import fcntl
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

READY_S, STOP_S = 60.0, 20.0
_DONE = ".done"


def cache_folder(name: str) -> Path:
    """Where what was installed is kept between runs, outside the checkout."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "logstore"
    return Path(os.environ.get("LOGSTORE_CACHE", default)) / name


def is_installed(folder: Path) -> bool:
    return (folder / _DONE).exists()


def install_once(folder: Path, install: Callable[[], None]) -> None:
    """Have `install` fill `folder`, unless it was; test processes may come here together."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_installed(folder):
            install()
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
