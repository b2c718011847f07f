"""The driver of one streaming query: killed in several ways, started again from its checkpoint."""

import json
import os
import random
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.scenarios.harness.process import Process
from tests.spark_source.sink.mortal import BATCH, GROUP, POINT


@dataclass(slots=True)
class QueryDriver:
    """`command`: a module that says a line `batch N` for each batch, and its arguments.

    With the words `mortal NAME=VALUE …` after them it dies by itself (`sink.mortal`).
    """

    command: Sequence[str]
    checkpoint: Path
    groups: Path
    """A folder for files that name the process group of a driver that is to die."""
    process: Process | None = None
    starts: int = 0
    lines: list[str] = field(default_factory=list)
    """The last ones of drivers that ended by themselves."""

    def run(self) -> Process:
        """The driver that runs, or another one: a worker that is killed ends its query."""
        if self.process is not None and self.process.is_alive:
            return self.process
        if self.process is not None:
            self.lines += self.process.lines[-1:]
        self.starts += 1
        self.process = Process(self.command)
        return self.process

    def run_mortal(self, point: str) -> Process:
        """A driver in the place of the one that runs, to die at a point of its next batch."""
        self.end()
        self.starts += 1
        group = self.groups / f"group-{self.starts}"
        batch = 1 + last_number(self.checkpoint / "commits")
        options = [f"{POINT}={point}", f"{BATCH}={batch}", f"{GROUP}={group}"]
        self.process = Process([*self.command, "mortal", *options])
        group.write_text(str(self.process.pid))
        return self.process

    def end(self) -> None:
        """Kill it, with its Java and its workers."""
        if self.process is not None:
            end_group(self.process)
            self.process = None

    def kill_a_worker(self, rng: random.Random) -> None:
        """One of the Python processes that run its tasks, or commit, at this moment."""
        if self.process is None:
            return
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            workers = [one for one in children if "pyspark.daemon" in " ".join(one.cmdline())]
            if workers:
                rng.choice(workers).kill()

    @property
    def rows_done(self) -> int:
        return rows_done(self.checkpoint)

    @property
    def is_batch_open(self) -> bool:
        """Whether a batch has begun that is not done."""
        return last_number(self.checkpoint / "offsets") > last_number(self.checkpoint / "commits")


def rows_done(checkpoint: Path) -> int:
    """Rows of a log that are in batches that are done, where all partitions begin at offset 0."""
    number = last_number(checkpoint / "commits")
    if number < 0:
        return 0
    ends = json.loads((checkpoint / "offsets" / f"{number}").read_text().splitlines()[-1])
    return sum(sum(topic["next"].values()) for topic in ends["topics"].values())


def last_number(folder: Path) -> int:
    """Of the batches that have a file in this folder of a checkpoint; -1: none has."""
    return max(map(int, _numbers(folder)), default=-1)


def _numbers(folder: Path) -> Iterable[str]:
    return (path.name for path in folder.glob("[0-9]*") if path.name.isdigit())


def end_group(process: Process) -> None:
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
