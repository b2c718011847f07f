"""A driver to be killed: writes a topic, and says a line for each batch it finishes.

python -m tests.spark_source.sink.driver LOG SOURCE TARGET CHECKPOINT BATCH_ROWS
    [FORMAT NAME=OPTION ...]

SOURCE is a topic of the log, or a folder of Parquet files, each of which is a batch. With FORMAT
`mortal` it dies by itself where its options say.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

from tests.spark_source.killed_driver import TellEachBatch
from tests.spark_source.session import make_session
from tests.spark_source.sink.mortal import MortalSource


def main() -> None:
    url, source, target, checkpoint, batch_rows, *more = sys.argv[1:]
    kind, *settings = more or ["logstore"]
    spark = make_session()
    spark.dataSource.register(MortalSource)
    spark.streams.addListener(TellEachBatch())
    if "/" in source:
        rows = file_stream(spark, source)
    else:
        rows = topic_stream(spark, url, source, batch_rows)
    writer = rows.writeStream.format(kind).options(path=url, topic=target)
    for setting in settings:
        name, _, value = setting.partition("=")
        writer = writer.option(name, value)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def file_stream(spark: SparkSession, folder: str) -> DataFrame:
    """A batch for each file."""
    schema = "key string, value binary"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def topic_stream(spark: SparkSession, url: str, topic: str, batch_rows: str) -> DataFrame:
    rows = spark.readStream.format("logstore").options(
        path=url, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=batch_rows
    )
    return rows.load().select("key", "value")


if __name__ == "__main__":
    main()
