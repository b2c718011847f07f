"""A session with Delta does to a table what its owner may, and prints what it saw, as JSON.

python -m tests.logstore.history.delta_spark TABLE JAR…
"""

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled": "false",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
}


def main() -> None:
    table, *jars = sys.argv[1:]
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(jars))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    told = _told(spark, table)
    sys.stdout.write(json.dumps(told) + "\n")
    spark.stop()


def _told(spark: SparkSession, table: str) -> dict[str, Any]:
    name = f"delta.`{table}`"
    rows = spark.read.format("delta").load(table)
    told: dict[str, Any] = {"columns": rows.dtypes}
    told["sums"] = _sums(spark, name)
    far = f"select timestamp_ms from {name} where timestamp_ms < 0 order by timestamp_ms"
    told["before 1970"] = [row[0] for row in spark.sql(far).collect()]
    told["pruned"] = len(rows.where("partition = 0 and offset >= 250").inputFiles())
    spark.sql(f"alter table {name} set tblproperties ('delta.checkpointInterval' = '2')")
    spark.sql(f"optimize {name} zorder by (key)").collect()
    told["sums after optimize"] = _sums(spark, name)
    spark.sql(f"delete from {name} where partition = 1 and offset = 3")
    spark.sql(f"vacuum {name} retain 0 hours").collect()
    told["sums after all"] = _sums(spark, name)
    return told


def _sums(spark: SparkSession, name: str) -> list[list[int]]:
    found = spark.sql(
        "select partition, count(*), sum(offset), sum(coalesce(length(value), 0)), "
        f"sum(size(headers)) from {name} group by partition order by partition"
    )
    return [list(row) for row in found.collect()]


if __name__ == "__main__":
    main()
