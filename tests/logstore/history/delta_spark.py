"""A session with Delta does to a table what its owner may, and prints what it saw, as JSON.

It also streams a table of its own, beside the other one, while retention drops a file of it.

python -m tests.logstore.history.delta_spark TABLE JAR…
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from logstore.history.delta import Tables
from logstore.history.forms import names
from logstore.history.forms.snapshot import TableCommit
from logstore.objects.directory import DirectoryStore
from tests.logstore.history.tables import TOPIC_ID, some_rows, written

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
    reported = _reported(spark, table)
    reported |= _streamed(spark, Path(table).parent / "streamed")
    sys.stdout.write(json.dumps(reported) + "\n")
    spark.stop()


def _reported(spark: SparkSession, table: str) -> dict[str, Any]:
    name = f"delta.`{table}`"
    rows = spark.read.format("delta").load(table)
    reported: dict[str, Any] = {"columns": rows.dtypes}
    reported["sums"] = _sums(spark, name)
    far = f"select timestamp_ms from {name} where timestamp_ms < 0 order by timestamp_ms"
    reported["before 1970"] = [row[0] for row in spark.sql(far).collect()]
    reported["pruned"] = len(rows.where("partition = 0 and offset >= 250").inputFiles())
    spark.sql(f"alter table {name} set tblproperties ('delta.checkpointInterval' = '2')")
    spark.sql(f"optimize {name} zorder by (key)").collect()
    reported["sums after optimize"] = _sums(spark, name)
    spark.sql(f"delete from {name} where partition = 1 and offset = 3")
    spark.sql(f"vacuum {name} retain 0 hours").collect()
    reported["sums after all"] = _sums(spark, name)
    return reported


def _streamed(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A stream of a table, before and after retention took the first of its files out."""
    log = folder / "log"
    tables, store = Tables(str(log)), DirectoryStore(log)
    snapshot = tables.create(TOPIC_ID, "orders")

    def move(start: int) -> list[Any]:
        files = written(store, some_rows(start, start + 10), number=start)
        commit = TableCommit({0: start}, {0: start + 10}, files, run=f"run-{start}")
        nonlocal snapshot
        snapshot = tables.commit(snapshot, commit)
        return files

    def stream(name: str, **options: str) -> tuple[list[int], str]:
        """Offsets that the stream wrote so far, and how it failed."""
        source = spark.readStream.format("delta").options(**options)
        rows = source.load(str(log / names.table_key(TOPIC_ID))).select("offset")
        query = (
            rows.writeStream.format("parquet")
            .option("checkpointLocation", str(folder / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / name))
        )
        fault = ""
        try:
            query.awaitTermination(120)
        except PySparkException as error:
            fault = str(error)
        found = spark.read.schema("offset bigint").parquet(str(folder / name)).collect()
        return sorted(row.offset for row in found), fault

    old = move(0)
    for name in ("plain", "ignoring"):
        assert stream(name)[0] == list(range(10))
    snapshot = tables.commit(snapshot, TableCommit({}, {}, (), old, "retention"))
    move(10)
    plain, fault = stream("plain")
    ignoring, _ = stream("ignoring", ignoreDeletes="true")
    return {"plain": plain, "fault": fault, "ignoring": ignoring}


def _sums(spark: SparkSession, name: str) -> list[list[int]]:
    found = spark.sql(
        "select partition, count(*), sum(offset), sum(coalesce(length(value), 0)), "
        f"sum(size(headers)) from {name} group by partition order by partition"
    )
    return [list(row) for row in found.collect()]


if __name__ == "__main__":
    main()
