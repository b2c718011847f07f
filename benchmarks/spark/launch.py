"""Runs a job in a process of its own, with a Java of its own, and has its figures."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

JOB_S = 900.0
CORES = 2
"""Of every job: `local[2]`."""

_SHOWN_BYTES = 4000


def run_job(module: str, wanted: Mapping[str, Any]) -> dict[str, float]:
    """`wanted` goes to `python -m MODULE` as JSON, figures come back.

    Raises `RuntimeError` with the end of its output when it fails.
    """
    with tempfile.TemporaryDirectory(prefix="logstore-bench-spark-") as name:
        directory = Path(name)
        asked, answer, log = (directory / part for part in ("asked.json", "answer.json", "log"))
        asked.write_text(json.dumps({**wanted, "directory": name}))
        with log.open("wb") as out:
            child = subprocess.run(
                [sys.executable, "-m", module, str(asked), str(answer)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=JOB_S,
                check=False,
            )
        if child.returncode:
            raise RuntimeError(f"{module} failed: {log.read_text()[-_SHOWN_BYTES:]}")
        found: dict[str, float] = json.loads(answer.read_text())
        return found
