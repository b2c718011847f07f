"""What an earlier Spark does with a log: `python -m … LOG ANSWER ROWS`, in its environment."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_source import configure, write_topic

WAIT_S = 120


def main() -> None:
    log, answer, rows = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    builder = configure(SparkSession.builder.master("local[2]"))
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    builder = builder.config("spark.python.authenticate.socketTimeout", "120s")  # a busy machine
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    answer.write_text(json.dumps(Job(spark, log, answer.parent, rows).run()))
    spark.stop()


class Job:
    def __init__(self, spark: SparkSession, log: str, directory: Path, rows: int) -> None:
        self._spark = spark
        self._log = log
        self._directory = directory
        self._rows = rows
        self._written = 0

    def run(self) -> Mapping[str, object]:
        self._write("source")
        read = self._spark.read.format("logstore").options(path=self._log, subscribe="source")
        found: dict[str, object] = {"read": read.load().count()}
        found["available_now"] = self._drain()
        self._write("source")
        found["available_now_again"] = self._drain()
        found["standing"], found["restarted"] = self._stand()
        self._write("batch")
        found["stream"] = self._write_stream()
        found["limits"] = self._reason(maxOffsetsPerTrigger="10")
        return found

    def _write(self, topic: str) -> None:
        first, self._written = self._written, self._written + self._rows
        write_topic(self._numbered(first), self._log, topic)

    def _numbered(self, first: int) -> DataFrame:
        rows = self._spark.range(first, first + self._rows, numPartitions=2)
        return rows.selectExpr("cast(id as string) key", "cast(concat('v', id) as binary) value")

    def _drain(self) -> int:
        """Rows in the sink after a query that ends by itself."""
        query = self._stream().writeStream.format("parquet").trigger(availableNow=True)
        query.options(
            path=str(self._at("drained")), checkpointLocation=str(self._at("c1"))
        ).start().awaitTermination()
        return self._distinct("drained")

    def _stand(self) -> tuple[int, int]:
        """Rows after a standing query that sees more, and after it was stopped and began again."""
        counts = []
        for _ in range(2):
            query = (
                self._stream()
                .writeStream.format("parquet")
                .options(path=str(self._at("standing")), checkpointLocation=str(self._at("c2")))
                .start()
            )
            query.processAllAvailable()
            self._write("source")
            query.processAllAvailable()
            query.stop()
            counts.append(self._distinct("standing"))
        return counts[0], counts[1]

    def _write_stream(self) -> str:
        folder = self._at("files")
        self._numbered(0).write.parquet(str(folder))
        rows = self._spark.readStream.schema("key string, value binary").parquet(str(folder))
        try:
            query = write_topic(
                rows,
                self._log,
                "stream",
                checkpoint=str(self._at("c3")),
                trigger={"availableNow": True},
            )
            assert query is not None
            query.awaitTermination()
        except PySparkException as error:
            return str(error)
        return "written"

    def _reason(self, **options: str) -> str:
        try:
            query = self._stream(**options).writeStream.format("noop").start()
            query.processAllAvailable()
        except PySparkException as error:
            return str(error)
        return "obeyed"

    def _stream(self, **options: str) -> DataFrame:
        reader = self._spark.readStream.format("logstore").options(
            path=self._log, subscribe="source", startingOffsets="earliest", **options
        )
        return reader.load()

    def _distinct(self, name: str) -> int:
        rows = self._spark.read.parquet(str(self._at(name))).selectExpr("partition", "offset")
        assert rows.count() == rows.distinct().count(), "rows came twice"
        return rows.count()

    def _at(self, name: str) -> Path:
        return self._directory / name


if __name__ == "__main__":
    main()
