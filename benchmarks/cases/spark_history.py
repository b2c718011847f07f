"""Spark reads a topic whose records lie in segments, and the same one after compaction: `local[2]`.

MB of values, as Kafka's clients wrote them. Each measurement is a Spark of its own that has read it
once before; `format("logstore")` in a batch, sink noop. Segments stay where they are: only
where the reader looks differs. --load takes the loads whose name begins so.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.cases.spark_read import JOB, LOADS
from benchmarks.contenders import Contenders
from benchmarks.load import Load, chosen
from benchmarks.options import Options
from benchmarks.spark.filled import Filled, Place
from benchmarks.spark.jars import session_jars
from benchmarks.spark.launch import run_job

WANTED = ("1KB random none", "1KB json zstd", "100B json none")
COMPACTION_S = 600


def parts(options: Options) -> Iterator[Contenders]:
    loads = chosen({name: LOADS[name][1] for name in WANTED}, options)
    for name, load in loads.items():
        with (
            Filled(LOADS[name][0], load, options) as filled,
            tempfile.TemporaryDirectory() as folder,
        ):
            yield _contenders(name, load, filled, Path(folder) / "log")


def _contenders(name: str, load: Load, filled: Filled, copy: Path) -> Contenders:
    return {
        "segments": lambda: _measure(name, load, filled.log),
        "table": lambda: _measure(name, load, _moved(filled.log, copy)),
    }


def _measure(name: str, load: Load, place: Place) -> dict[str, float]:
    found = run_job(
        JOB,
        {
            "jars": [str(jar) for jar in session_jars()],
            "format": place.format,
            "options": place.options,
            "mode": "batch",
            "sink": "noop",
            "brokers": (),
            "topic": asdict(place.topic),
            "profiles": None,
        },
    )
    gigabytes = load.record_count * load.record_bytes / 1e9
    return {
        f"{name}: MB/s": 1000 * gigabytes / found["wall_s"],
        f"{name}: Java CPU-s/GB": found["java_s"] / gigabytes,
        f"{name}: Python CPU-s/GB": found["python_s"] / gigabytes,
        f"{name}: all CPU-s/GB": (found["java_s"] + found["python_s"]) / gigabytes,
    }


def _moved(place: Place, copy: Path) -> Place:
    """A copy of the log, everything in it moved to tables."""
    if not copy.exists():
        shutil.copytree(place.options["path"], copy)
        command = [sys.executable, "-m", "logstore.cli.main", "compact", "--url", str(copy)]
        subprocess.run(
            [*command, "--now"], check=True, timeout=COMPACTION_S, stdout=subprocess.DEVNULL
        )
    return replace(place, options={"path": str(copy)})
