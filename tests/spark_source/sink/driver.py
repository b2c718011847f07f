"""A driver to be killed: copies a topic into another, and says a line for each batch it finishes.

python -m tests.spark_source.sink.driver LOG SOURCE TARGET CHECKPOINT BATCH_ROWS
    [FORMAT NAME=OPTION ...]

With FORMAT `mortal` it dies by itself where its options say.
"""

import sys

from tests.spark_source.killed_driver import TellEachBatch
from tests.spark_source.session import make_session
from tests.spark_source.sink.mortal import MortalSource


def main() -> None:
    url, source, target, checkpoint, batch_rows, *more = sys.argv[1:]
    kind, *settings = more or ["logstore"]
    spark = make_session()
    spark.dataSource.register(MortalSource)
    spark.streams.addListener(TellEachBatch())
    rows = (
        spark.readStream.format("logstore")
        .options(path=url, subscribe=source, startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", batch_rows)
        .load()
        .select("key", "value")
    )
    writer = rows.writeStream.format(kind).options(path=url, topic=target)
    for setting in settings:
        name, _, value = setting.partition("=")
        writer = writer.option(name, value)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
