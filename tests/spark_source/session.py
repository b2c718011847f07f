"""A Spark session for tests: two cores of this machine, small everything, this interpreter.

Spark takes jars only when its Java starts, and a process starts it once. So Spark's Kafka source is
there in every session whose machine has fetched it; `format("logstore")` needs none.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark_source.kafka_source import kafka_source_jars


def make_session(
    *, settings: Mapping[str, str] | None = None, jars: Sequence[Path] = ()
) -> SparkSession:
    """`settings` and `jars` on top of what each session has."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("logstore tests")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "4")
        .config("spark.sql.warehouse.dir", _warehouse())
        .config("spark.python.unix.domain.socket.enabled", "true")
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    if all_jars := [*kafka_source_jars(), *jars]:
        builder = builder.config("spark.jars", ",".join(map(str, all_jars)))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _warehouse() -> str:
    """A folder for as long as this process."""
    folder = tempfile.mkdtemp(prefix="logstore-warehouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
