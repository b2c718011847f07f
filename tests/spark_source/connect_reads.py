"""A client of Spark Connect that reads a log by batch and stream, and prints what it found.

python -m tests.spark_source.connect_reads LOG DIRECTORY
"""

import json
import os
import sys

from pyspark.sql import SparkSession

from spark_source import create_view, read_topic


def main() -> None:
    url, directory = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder: SparkSession.Builder = SparkSession.builder
    spark = (
        builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    batch = read_topic(spark, url, "orders")
    stream = read_topic(spark, url, "orders", stream=True, startingOffsets="earliest")
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/rows")
    )
    query.awaitTermination()
    create_view(spark, url, "orders", "all_orders")
    reported = {
        "view": spark.sql("select count(leader_epoch) from all_orders").collect()[0][0],
        "session": type(spark).__module__,
        "batch": batch.count(),
        "columns": batch.columns,
        "stream": spark.read.parquet(f"{directory}/rows").count(),
    }
    sys.stdout.write(json.dumps(reported) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
