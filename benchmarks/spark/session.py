"""A Spark session as every job has it: two cores, 2 GB, quiet, Delta and Kafka's source at hand."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.spark.launch import CORES

SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": str(CORES),
    "spark.python.unix.domain.socket.enabled": "true",  # as `spark_source.configure` sets it
    "spark.python.daemon.module": "benchmarks.spark.counted_daemon",
}


def make_session(
    jars: Sequence[str], directory: Path, settings: Mapping[str, str] | None = None
) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("logstore benchmarks")
    here = {"spark.jars": ",".join(jars), "spark.sql.warehouse.dir": str(directory / "warehouse")}
    for name, value in {**SETTINGS, **here, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
