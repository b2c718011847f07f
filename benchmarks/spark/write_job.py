"""The cost of a sink: `python -m benchmarks.spark.write_job ASKED ANSWER`.

Rows lie in Spark's memory, encoded already, so that making them costs nothing. A batch write of all
of them, after one that warms up; then a stream of small micro-batches.
"""

import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark.launch import CORES
from benchmarks.spark.session import make_session
from benchmarks.spark.tree import spent_by, spent_here

SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "2000"}
WARM_BATCHES = 5
WAIT_S = 600.0


def main() -> int:
    asked_at, answer_at = map(Path, sys.argv[1:])
    asked = json.loads(asked_at.read_text())
    spark = make_session(asked["jars"], Path(asked["directory"]), SETTINGS)
    found = {**write_all(spark, asked), **small_batches(spark, asked)}
    answer_at.write_text(json.dumps(found))
    spark.stop()
    return 0


def write_all(spark: SparkSession, asked: Mapping[str, Any]) -> dict[str, float]:
    rows = (
        spark.range(0, asked["rows"], numPartitions=CORES)
        .selectExpr(
            "cast(cast(id as string) as binary) as key",
            f"binary(left(repeat(sha2(cast(id as string), 512), 9), {asked['record_bytes']})) "
            "as value",
        )
        .persist(StorageLevel.MEMORY_ONLY)
    )
    rows.count()
    _append(rows.limit(1000), asked)
    _append(rows, asked)
    began_s, spent, brokers_s = time.perf_counter(), spent_here(), spent_by(asked["brokers"])
    _append(rows, asked)
    took_s = time.perf_counter() - began_s
    used = spent_here().since(spent)
    rows.unpersist()
    return {
        "wall_s": took_s,
        "java_s": used.java_s,
        "python_s": used.python_s,
        "brokers_s": spent_by(asked["brokers"]) - brokers_s,
    }


def small_batches(spark: SparkSession, asked: Mapping[str, Any]) -> dict[str, float]:
    """Medians of micro-batches of few rows, as fast as they go."""
    count = asked["micro_batches"]
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", asked["micro_rows"])
        .option("numPartitions", 1)
        .load()
        .selectExpr("cast(cast(value as string) as binary) as key", "binary('value') as value")
    )
    checkpoint = str(Path(asked["directory"]) / "checkpoint")
    writer = rows.writeStream.format(asked["format"]).options(**asked["options"])
    query = writer.option("topic", asked["topic"]).option("checkpointLocation", checkpoint).start()
    deadline_s = time.monotonic() + WAIT_S
    while len(query.recentProgress) < WARM_BATCHES:
        assert time.monotonic() < deadline_s and query.isActive, query.exception()
        time.sleep(0.05)
    first = query.recentProgress[-1].batchId
    spent, brokers_s = spent_here(), spent_by(asked["brokers"])
    while query.recentProgress[-1].batchId < first + count:
        assert time.monotonic() < deadline_s and query.isActive, query.exception()
        time.sleep(0.05)
    used, brokers_s = spent_here().since(spent), spent_by(asked["brokers"]) - brokers_s
    done = [one for one in query.recentProgress if one.batchId > first]
    query.stop()
    took_ms = [dict(one.durationMs) for one in done]
    return {
        "trigger_ms": statistics.median(one["triggerExecution"] for one in took_ms),
        "add_batch_ms": statistics.median(one["addBatch"] for one in took_ms),
        "spark_ms": 1000 * used.all_s / len(done),
        "brokers_ms": 1000 * brokers_s / len(done),
    }


def _append(rows: DataFrame, asked: Mapping[str, Any]) -> None:
    writer = rows.write.format(asked["format"]).mode("append").options(**asked["options"])
    writer.option("topic", asked["topic"]).save()


if __name__ == "__main__":
    sys.exit(main())
