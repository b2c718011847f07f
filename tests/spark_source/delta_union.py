"""A session with Delta reads a topic as one relation, and prints what it found, as JSON.

python -m tests.spark_source.delta_union DIRECTORY JAR…
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_source import configure, table
from spark_source.relation import delta_path
from tests.spark_source.growing import GrowingTopic, digest_of, new_log
from tests.spark_source.places import raise_log_start

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


def main() -> None:
    directory, *jars = sys.argv[1:]
    spark = _session(Path(directory), jars)
    with new_log(Path(directory) / "log") as log:
        reported = _reported(spark, GrowingTopic(log))
    sys.stdout.write(json.dumps(reported) + "\n")
    spark.stop()


def _reported(spark: SparkSession, topic: GrowingTopic) -> dict[str, Any]:
    wrong = []
    views: list[tuple[str, DataFrame, object]] = []
    for step in topic.story():
        rows = table(spark, topic.url, "orders")
        views.append((step, rows, topic.digest()))
        if digest_of(rows) != topic.digest():
            wrong.append(step)
    wrong += [f"later: {step}" for step, rows, then in views[-4:] if digest_of(rows) != then]
    by_delta = table(spark, topic.url, "orders", history="delta")
    by_source = table(spark, topic.url, "orders", history="logstore")
    reported = {
        "steps": len(views),
        "wrong": wrong,
        "columns": by_delta.columns,
        "schemas differ": [
            name
            for name in by_delta.columns
            if by_delta.schema[name].dataType != by_source.schema[name].dataType
        ],
        "files": len(by_delta.inputFiles()),
        "files of partition 1": len(by_delta.where("partition = 1").inputFiles()),
    }
    spark.sql(f"optimize delta.`{delta_path(topic.url, topic.topic_id)}`").collect()
    reported["optimized"] = digest_of(table(spark, topic.url, "orders")) == topic.digest() and (
        digest_of(table(spark, topic.url, "orders", history="logstore")) == topic.digest()
    )
    raise_log_start(Path(topic.url), topic.topic_id, 1, 50)
    reported["after log start"] = digest_of(table(spark, topic.url, "orders"))
    reported["after log start by the source"] = digest_of(
        table(spark, topic.url, "orders", history="logstore")
    )
    return reported


def _session(directory: Path, jars: list[str]) -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = configure(SparkSession.builder.master("local[2]"))
    for name, value in DELTA.items():
        builder = builder.config(name, value)
    spark = (
        builder.config("spark.driver.memory", "1g")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    main()
