"""Kafka's source into Kafka's sink, to be killed: copies a topic, and says a line for each batch.

python -m benchmarks.spark.copy_job BOOTSTRAP SOURCE TARGET CHECKPOINT BATCH_ROWS
"""

import sys

from tests.spark_source.killed_driver import TellEachBatch
from tests.spark_source.session import make_session


def main() -> None:
    bootstrap, source, target, checkpoint, batch_rows = sys.argv[1:]
    spark = make_session()
    spark.streams.addListener(TellEachBatch())
    where = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.readStream.format("kafka").options(
        subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=batch_rows, **where
    )
    (
        rows.load()
        .select("key", "value")
        .writeStream.format("kafka")
        .options(topic=target, checkpointLocation=checkpoint, **where)
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
