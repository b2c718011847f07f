"""Makes the archives of classes that tests start Java with: once for a checkout.

    python -m tests.servers.make_archives

`make test` does so before its tests. Those that are there stay; `make clean` removes them.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers.kafka import fetch_jars
from tests.clients.java_users import TOOLS, java_with, kafka_archive
from tests.servers.class_archive import spark_archive
from tests.servers.short_java import JAVA_OPTIONS
from tools.java import why_no_java

MAKE_S = 900.0


def make(archive: Path, run: Callable[[str], object]) -> None:
    """`run` starts a Java with the option that it is given, and waits for its end."""
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        run(f"-XX:ArchiveClassesAtExit={made}")
        made.rename(archive)


def _run_spark(option: str) -> None:
    """In a process of its own: pytest's sets variables that are read when Spark starts."""
    command = [sys.executable, "-m", "tests.servers.spark_workload"]
    _run(command, {"SPARK_SUBMIT_OPTS": " ".join((*JAVA_OPTIONS, option))})


def _run_kafka(option: str) -> None:
    """A consumer of a broker that is not there: it loads what all of Kafka's clients use."""
    command = [*java_with(option), "-cp", f"{fetch_jars()}/*", f"{TOOLS}.consumer.ConsoleConsumer"]
    options = ["--bootstrap-server", "127.0.0.1:1", "--topic", "none", "--timeout-ms", "1000"]
    _run([*command, *options], {})


def _run(command: Sequence[str], variables: dict[str, str]) -> None:
    subprocess.run(
        command,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=MAKE_S,
    )


def main() -> int:
    """Tests run without an archive that cannot be made."""
    if why_no_java():
        return 0
    for archive, run in ((kafka_archive(), _run_kafka), (spark_archive(), _run_spark)):
        try:
            make(archive, run)
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"no archive of classes: {archive.name}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
