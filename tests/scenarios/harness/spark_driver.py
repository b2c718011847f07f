"""A Spark driver to be killed: reads a log in a bucket, with its checkpoint in a bucket too.

    python -m tests.scenarios.harness.spark_driver LOG CHECKPOINT OUTPUT --log-endpoint URL
        --s3a-endpoint URL --manager rename|abortable [--drain]

It says `offsets N` when the offsets of batch N are in the checkpoint, `written N` when its rows are
in the sink, `committed N` when Spark has called it done. The sink is as strict as one that uses
batch ids can be: a batch that is there already is not written again, whatever it would hold now.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_source import configure
from tests.servers.s3a import s3a_jars

TOPIC = "orders"
OFFSETS_PER_BATCH = "500"
MANAGERS = {
    "rename": None,
    "abortable": "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
}
"""Spark's choice for s3a when no option sets one, and the one of spark-hadoop-cloud."""


class TellCommits(StreamingQueryListener):
    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802

    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802

    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        _say(f"committed {event.progress.batchId}")


def main() -> None:
    options = _parser().parse_args()
    spark = _session(options)
    spark.streams.addListener(TellCommits())
    reader = (
        spark.readStream.format("logstore")
        .option("path", options.log)
        .option("storage.endpoint", options.log_endpoint)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
    )
    if not options.drain:
        reader = reader.option("maxOffsetsPerTrigger", OFFSETS_PER_BATCH)
    query = reader.load().writeStream.foreachBatch(_sink(Path(options.output)))
    query = query.option("checkpointLocation", options.checkpoint)
    if options.drain:
        query = query.trigger(availableNow=True)
    query.start().awaitTermination()


def _sink(folder: Path) -> Any:
    def write(rows: DataFrame, number: int) -> None:
        _say(f"offsets {number}")
        whole = folder / f"{number}"
        if not whole.exists():
            part = folder / f".{number}"
            rows.write.mode("overwrite").parquet(str(part))
            part.rename(whole)
        _say(f"written {number}")

    return write


def _session(options: argparse.Namespace) -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    s3a = {
        "endpoint": options.s3a_endpoint,
        "endpoint.region": os.environ["AWS_REGION"],
        "path.style.access": "true",
        "aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
        ),
    }
    builder = (
        configure(SparkSession.builder)
        .master("local[2]")
        .config("spark.jars", ",".join(map(str, s3a_jars())))
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for name, value in s3a.items():
        builder = builder.config(f"spark.hadoop.fs.s3a.{name}", value)
    if manager := MANAGERS[options.manager]:
        builder = builder.config("spark.sql.streaming.checkpointFileManagerClass", manager)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("log", "checkpoint", "output"):
        parser.add_argument(name)
    parser.add_argument("--log-endpoint", required=True)
    parser.add_argument("--s3a-endpoint", required=True)
    parser.add_argument("--manager", choices=MANAGERS, default="rename")
    parser.add_argument("--drain", action="store_true", help="what is there now, then end")
    return parser


if __name__ == "__main__":
    main()
