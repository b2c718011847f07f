"""A driver to be killed: streams a topic into Parquet and says a line for each batch it finishes.

python -m tests.spark_source.killed_driver LOG CHECKPOINT OUTPUT
"""

import sys
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.spark_source.session import make_session


class TellEachBatch(StreamingQueryListener):
    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802

    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802

    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        sys.stdout.write(f"batch {event.progress.batchId}\n")
        sys.stdout.flush()


def main() -> None:
    url, checkpoint, output = sys.argv[1:]
    spark = make_session()
    spark.streams.addListener(TellEachBatch())
    (
        spark.readStream.format("logstore")
        .option("path", url)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "100")
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .start(output)
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
