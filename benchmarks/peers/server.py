"""Running servers as a case sees them: where they listen, and their cost so far."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

STOP_S = 30.0
READY_S = 60.0

_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


@dataclass(frozen=True, slots=True)
class Server:
    """One broker or a cluster: a process each.

    `directory` holds its data and is removed with it; `started_s` is spawn to first accept;
    `replicas` is the factor that its topics are to have; `counts` are files that its brokers
    write when asked (`peers.counts`).
    """

    name: str
    bootstrap: str
    processes: list[psutil.Process]
    directory: Path
    started_s: float
    replicas: int = 1
    counts: Sequence[Path] = ()

    def cpu_s(self) -> float:
        """User and system CPU seconds of all processes so far, all threads."""
        return sum(self.cpu_s_of_each())

    def cpu_s_of_each(self) -> list[float]:
        return [float(sum(process.cpu_times()[:2])) for process in self.processes]

    def rss_bytes(self) -> int:
        return sum(int(process.memory_info().rss) for process in self.processes)

    def peak_rss_bytes(self) -> int:
        """The most that each has had so far, together."""
        return sum(peak_rss_bytes(process.pid) for process in self.processes)


def peak_rss_bytes(process: int) -> int:
    """The most that a process has had so far, by its id."""
    status = Path(f"/proc/{process}/status").read_text()
    (peak_kb,) = _PEAK.findall(status)
    return int(peak_kb) * 1024


def forget_peak_rss() -> None:
    """Have the peak of this process begin again at what it has now."""
    Path("/proc/self/clear_refs").write_text("5")


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
            stop(server.processes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def stop(processes: Sequence[psutil.Process]) -> None:
    """Ask all of them to end; after a while, make them."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(processes, STOP_S)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, STOP_S)
    for process in processes:
        if isinstance(process, psutil.Popen) and process.stdout is not None:
            process.stdout.close()


def spawn(command: Sequence[str], log: Path) -> psutil.Popen:
    """A child whose output goes to `log`."""
    with log.open("wb") as out:
        return psutil.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ})


def wait_for_brokers(bootstrap: str, count: int) -> None:
    """Until each of them tells of all. Raises `RuntimeError`."""
    deadline_s = time.monotonic() + READY_S
    for address in bootstrap.split(","):
        while _reported(address) != count:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"not all brokers are seen by {address}: {bootstrap}")
            time.sleep(0.1)


def _reported(address: str) -> int:
    """A new client, which knows no other broker to ask."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    with suppress(KafkaException):
        return len(admin.list_topics(timeout=5).brokers)
    return 0
