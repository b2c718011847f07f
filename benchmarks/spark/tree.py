"""CPU seconds of a process and all it has started, Java and Python apart."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from benchmarks.peers.server import peak_rss_bytes


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds, user and system, so far."""

    java_s: float
    python_s: float

    @property
    def all_s(self) -> float:
        return self.java_s + self.python_s

    def since(self, earlier: "Spent") -> "Spent":
        return Spent(self.java_s - earlier.java_s, self.python_s - earlier.python_s)


def spent_here() -> Spent:
    """By this process, its descendants, and those that have ended and been waited for."""
    me = psutil.Process()
    java_s = python_s = 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            own_s, ended_s = times.user + times.system, times.children_user + times.children_system
            if process.name() == "java":
                java_s += own_s
            else:
                python_s += own_s
            python_s += ended_s  # Spark's Java starts nothing but Python
    return Spent(java_s, python_s)


def spent_by(processes: Sequence[int]) -> float:
    """CPU seconds of processes, by their ids."""
    return sum(float(sum(psutil.Process(one).cpu_times()[:2])) for one in processes)


def worker_peak_bytes() -> int:
    """The most memory that one of the Python processes below Java has had so far."""
    peaks = [0]
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ValueError):
            if process.name() != "java":
                peaks.append(peak_rss_bytes(process.pid))
    return max(peaks)
