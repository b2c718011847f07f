"""The process that compacts, optimizes, trims and sweeps; another after each kill."""

import random
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.scenarios.harness.maintenance import KeptLog
from tests.scenarios.harness.process import Process

MODULE = "tests.scenarios.harness.maintenance"
ROUND_S = 240.0
DELAY_S_MAX = 2.0


@dataclass(slots=True)
class Kept:
    """What such processes did."""

    compactions: int = 0
    moved_rows: int = 0
    refused_compactions: int = 0
    optimized_files: int = 0
    trimmed_objects: int = 0
    swept_objects: int = 0
    kills: int = 0

    def count(self, lines: Sequence[str]) -> None:
        for line in lines:
            if match := re.match(r"compacted rows=(\d+)", line):
                self.compactions += 1
                self.moved_rows += int(match[1])
            elif line.startswith("compacted code="):
                self.refused_compactions += 1
            elif match := re.match(r"optimized removed=(\d+)", line):
                self.optimized_files += int(match[1])
            elif match := re.match(r"trimmed objects=(\d+)", line):
                self.trimmed_objects += int(match[1])
            elif match := re.match(r"swept objects=(\d+)", line):
                self.swept_objects += int(match[1])

    def report(self) -> str:
        swept = f", {self.swept_objects} staged ones swept" if self.swept_objects else ""
        return (
            f"{self.compactions} compactions moved {self.moved_rows:,} rows, "
            f"{self.refused_compactions} ended with an error, {self.kills} killed; OPTIMIZE took "
            f"{self.optimized_files} files, {self.trimmed_objects} objects were trimmed{swept}"
        )


class MaintenanceLoop:
    """`gate` is a file that holds its rounds while it exists; `more`, other arguments."""

    def __init__(
        self,
        log: KeptLog,
        rng: random.Random,
        *,
        gate: Path | None = None,
        more: Sequence[str] = (),
    ) -> None:
        endpoint = ("--endpoint", log.endpoint) if log.endpoint else ()
        gated = ("--gate", str(gate)) if gate else ()
        self._command = [MODULE, "--url", log.url, *endpoint, *gated, *more]
        self._gate = gate
        self._rng = rng
        self._ended = Kept()
        self._process = Process(self._command)

    def __enter__(self) -> "MaintenanceLoop":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def kept(self) -> Kept:
        """By all processes up to now."""
        kept = replace(self._ended)
        kept.count(self._process.lines)
        return kept

    @contextmanager
    def held(self) -> Iterator[None]:
        """No round of it is under way, and none begins."""
        assert self._gate is not None
        said = len(self._process.lines)
        self._gate.touch()
        self._process.wait_for("^held$", after=said, deadline_s=ROUND_S)
        try:
            yield
        finally:
            self._gate.unlink()

    def kill(self, times: int = 1) -> None:
        """Each at a random moment of its work."""
        for _ in range(times):
            self._process.wait_for("^compacted", deadline_s=ROUND_S)  # it is at work
            time.sleep(self._rng.uniform(0, DELAY_S_MAX))
            self._process.kill()
            self._process.wait()
            self._ended = self.kept
            self._ended.kills += 1
            self._process = Process(self._command)

    def require_alive(self) -> None:
        self._process.require_alive()

    def end(self) -> None:
        """What is under way is ended first."""
        self._process.send(signal.SIGTERM)
        code = self._process.wait(deadline_s=ROUND_S)
        assert code == 0, self._process.lines[-20:]
