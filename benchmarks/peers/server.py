"""A running server as a case sees it: where it listens, and what it has cost so far."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class Server:
    """`directory` holds its data and is removed with it; `started_s` is spawn to first accept."""

    name: str
    bootstrap: str
    process: psutil.Process
    directory: Path
    started_s: float

    def cpu_s(self) -> float:
        """User and system CPU seconds of the process so far, all threads."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def rss_bytes(self) -> int:
        return int(self.process.memory_info().rss)


Start = Callable[[Path], Server]
"""Start a server whose data goes below the given directory."""


@contextmanager
def running(start: Start) -> Iterator[Server]:
    """A server for one case, in a directory of its own; nothing of it is left."""
    directory = Path(tempfile.mkdtemp(prefix="logstore-bench-"))
    try:
        server = start(directory)
        try:
            yield server
        finally:
            stop(server.process)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def stop(process: psutil.Process) -> None:
    if not process.is_running():
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(STOP_S)


def spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """A child whose output goes to `log`."""
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ})
