"""Source and sink in earlier versions of Spark, each in an environment of its own.

    python -m tests.scenarios.harness.older_spark [4.0.1 4.1.1]

PySpark is installed once, into the cache outside the checkout; all else is this checkout's. A log
with a broker process is read and written by each version (`older_spark_job`); what it did is
compared with what the topics hold.
"""

import json
import os
import site
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.servers.child import cache_folder, install_once
from tests.spark_source.sink.log import ServedLog, served_log

VERSIONS = ("4.0.1", "4.1.1")
ROOT = Path(__file__).parent.parent.parent.parent
JOB_S = 600.0
ROWS = 300


def main() -> int:
    failed = 0
    for version in sys.argv[1:] or VERSIONS:
        with tempfile.TemporaryDirectory(prefix="logstore-older-spark-") as name:
            complaints = run(version, Path(name))
        print(f"Spark {version}: {'; '.join(complaints) or 'as it should be'}", flush=True)
        failed += bool(complaints)
    return 1 if failed else 0


def run(version: str, directory: Path) -> list[str]:
    """What was not as it should be."""
    python = installed(version)
    with served_log(directory) as log:
        for topic in ("source", "batch", "stream"):
            log.create(topic)
        found = job(python, log, directory)
        report = [
            f"{name}: {found[name]} not {value}"
            for name, value in EXPECTED.items()
            if found[name] != value
        ]
        if "4.2" not in (str(found["limits"])):
            report.append(f"limits: {found['limits']}")
        written = "" if version.startswith("4.0") else "written"
        if written and log.record_count("stream") != ROWS:
            report.append(f"stream wrote {log.record_count('stream')}, {found['stream']}")
        if not written and "needs Spark 4.1" not in str(found["stream"]):
            report.append(f"a stream that cannot be written: {found['stream']}")
        if log.record_count("batch") != ROWS:
            report.append(f"batch wrote {log.record_count('batch')}")
    return report


EXPECTED = {
    "read": ROWS,
    "available_now": ROWS,
    "available_now_again": 2 * ROWS,
    "standing": 3 * ROWS,
    "restarted": 4 * ROWS,
}


def job(python: Path, log: ServedLog, directory: Path) -> dict[str, object]:
    answer = directory / "answer.json"
    done = subprocess.run(
        [python, "-m", "tests.scenarios.harness.older_spark_job", log.url, answer, str(ROWS)],
        cwd=ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{python} failed: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    found: dict[str, object] = json.loads(answer.read_text())
    return found


def installed(version: str) -> Path:
    """The interpreter of an environment with that PySpark before everything of this one's."""
    folder = cache_folder(f"pyspark-{version}")
    python = folder / "venv" / "bin" / "python"

    def install() -> None:
        uv = next(path for path in (ROOT / ".uv/bin/uv", ROOT / ".uv/lib/bin/uv") if path.exists())
        venv = folder / "venv"
        subprocess.run([uv, "venv", "-q", "--clear", "-p", sys.executable, venv], check=True)
        subprocess.run(
            [uv, "pip", "install", "-q", "-p", python, f"pyspark=={version}"], check=True
        )

    install_once(folder, install)
    (others,) = {Path(path) for path in site.getsitepackages()}
    (own,) = python.parent.parent.glob("lib/python*/site-packages")
    (own / "checkout.pth").write_text(f"{others}\n")
    return python


if __name__ == "__main__":
    sys.exit(main())
