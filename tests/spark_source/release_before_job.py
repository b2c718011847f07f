"""What a Spark driver of the release before does with a log: run by that release's own packages.

    cd FOLDER OF THE RELEASE; python …/release_before_job.py URL TOPIC DIRECTORY

Reads the topic as a batch, and as a stream that goes on from its checkpoint in DIRECTORY; then
prints one JSON line: where the packages are, the rows of the batch and of all streams so far, and
how many of them are distinct. It imports nothing of this checkout.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import spark_source


def main() -> int:
    url, topic, directory = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    given = {"path": url, "subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("logstore").options(**given).load()
    stream = spark.readStream.format("logstore").options(**given).load()
    query = (
        stream.writeStream.format("parquet")
        .option("path", f"{directory}/rows")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    streamed = spark.read.parquet(f"{directory}/rows")
    counts = {
        "packages": str(Path(spark_source.__file__).parent.parent),
        "batch": batch.count(),
        "batch_distinct": distinct(batch),
        "streamed": streamed.count(),
        "streamed_distinct": distinct(streamed),
    }
    sys.stdout.write(json.dumps(counts) + "\n")
    spark.stop()
    return 0


def distinct(rows: DataFrame) -> int:
    return rows.select("partition", "offset", "value").distinct().count()


if __name__ == "__main__":
    sys.exit(main())
