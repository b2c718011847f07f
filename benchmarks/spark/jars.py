"""Jars that Spark needs beside itself: its Kafka source, and Delta; by Maven, fetched once."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.child import cache_folder, install_once, is_installed
from tests.spark_source.kafka_source import kafka_source_jars

DELTA_VERSION = "4.4.0"
POM = Path(__file__).with_name("delta.pom.xml")
INSTALL_S = 300.0


def session_jars() -> Sequence[Path]:
    """All of them: every job has the same, whatever it reads. Raises `SystemExit` without Maven."""
    kafka = kafka_source_jars()
    if not kafka:
        raise SystemExit("Spark's Kafka source is not here, and fetching it needs Maven")
    return [*kafka, *_delta_jars()]


def _delta_jars() -> Sequence[Path]:
    folder = cache_folder(f"delta-spark-{DELTA_VERSION}")
    if not is_installed(folder):
        install_once(folder, lambda: _install(folder))
    return sorted(folder.glob("*.jar"))


def _install(folder: Path) -> None:
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, timeout=INSTALL_S)
