"""The queries of `pipeline`, each in a driver that is killed; it says a line for each batch.

python -m tests.scenarios.harness.pipeline_driver copy|table --log URL --topic NAME --to TARGET
    --checkpoint DIR --batch-rows N [--endpoint URL] [mortal NAME=VALUE …]

copy     TARGET is another topic of the log, written by `format("logstore")`; with `mortal` by
         the sink that dies where its options say (`tests.spark_source.sink.mortal`)
table    TARGET is the folder of a Delta table, which gets each record with its place in TOPIC
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark_source.delta_jars import delta_jars
from tests.spark_source.killed_driver import TellEachBatch
from tests.spark_source.session import make_session
from tests.spark_source.sink.mortal import MortalSource

TRIGGER = "2 seconds"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def main() -> None:
    options = _parser().parse_args()
    writer = copy(options) if options.query == "copy" else table(options)
    writer = writer.option("checkpointLocation", options.checkpoint)
    writer.trigger(processingTime=TRIGGER).start().awaitTermination()


def copy(options: argparse.Namespace) -> DataStreamWriter:
    spark = make_session()
    spark.dataSource.register(MortalSource)
    rows = _records(spark, options).select("key", "value", "headers", "timestamp")
    kind, *settings = options.sink or ["logstore"]
    given = dict(setting.split("=", 1) for setting in settings)
    return rows.writeStream.format(kind).options(**_log(options), topic=options.to, **given)


def table(options: argparse.Namespace) -> DataStreamWriter:
    spark = make_session(settings=DELTA, jars=delta_jars())
    rows = _records(spark, options).select(
        "partition",
        "offset",
        sf.unix_millis("timestamp").alias("timestamp_ms"),
        "key",
        "value",
        "headers",
    )
    return rows.writeStream.format("delta").option("path", options.to)


def _records(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    spark.streams.addListener(TellEachBatch())
    reader = spark.readStream.format("logstore").options(
        **_log(options),
        subscribe=options.topic,
        startingOffsets="earliest",
        includeHeaders="true",
        maxOffsetsPerTrigger=options.batch_rows,
    )
    return reader.load()


def _log(options: argparse.Namespace) -> dict[str, str]:
    endpoint = {"storage.endpoint": options.endpoint} if options.endpoint else {}
    return {"path": options.log, **endpoint}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("query", choices=("copy", "table"))
    for name in ("log", "topic", "to", "checkpoint", "batch-rows"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--endpoint")
    parser.add_argument("sink", nargs="*")
    return parser


if __name__ == "__main__":
    main()
