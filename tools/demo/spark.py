"""A Spark session in this process, with Delta, quiet, and wholly gone at the end."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delta import configure_spark_with_delta_pip
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

EXIT_TIMEOUT_S = 30.0

# Delta needs two jars for tables in a directory. What else it names is for catalogs, and would
# bring a second Hadoop.
NOT_NEEDED = (
    "io.unitycatalog:unitycatalog-client",
    "io.unitycatalog:unitycatalog-hadoop",
    "io.delta:delta-kernel-api",
    "io.delta:delta-kernel-defaults",
    "io.delta:delta-kernel-unitycatalog",
)

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.jars.excludes": ",".join(NOT_NEEDED),
    # Two cores and a small table: the defaults would cost a hundred tiny tasks a batch.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


# What Python code raises arrives as a traceback in the text of Spark's own error.
_OURS = re.compile(r"^logstore\.errors\.\w+: (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^(\w+: .+)\n\s*SQLSTATE", re.MULTILINE)


class SparkFailed(Exception):
    """The text is the reason, in one line."""


def has_fetched(ivy: Path) -> bool:
    """Whether an earlier run has left Delta's jars."""
    return any(ivy.glob("jars/io.delta_delta-spark*.jar"))


@contextmanager
def spark_session(ivy: Path, lines: Path) -> Iterator[SparkSession]:
    """`ivy` is where Spark caches jars, `lines` takes what its processes print."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # prints a traceback on Ctrl-C
    builder = SparkSession.builder.master("local[2]").appName("logstore demo")
    for name, value in {**SETTINGS, "spark.jars.ivy": str(ivy.absolute())}.items():
        builder = builder.config(name, value)
    try:
        with _output_to(lines):
            session = configure_spark_with_delta_pip(builder).getOrCreate()
        session.sparkContext.setLogLevel("WARN")
        yield session
        session.stop()
    except PySparkException as error:
        # Now, while there is a JVM to ask for the text.
        raise SparkFailed(f"{_reason(str(error))}; see {lines}") from error
    finally:
        _end_java()


def _reason(text: str) -> str:
    found = _OURS.search(text) or _PYTHON.search(text)
    return found[1] if found else (text.strip().splitlines() or ["Spark failed"])[0]


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Processes started in it write to `path` for as long as they live."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _end_java() -> None:
    """Spark leaves its JVM to the exit of this process. Python workers end with the JVM."""
    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is None or process is None:
        return
    gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()  # for which it waits
    try:
        process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
