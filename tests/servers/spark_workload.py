"""What tests do with Spark, in short, so that its Java loads their classes: for an archive of them.

python -m tests.servers.spark_workload
"""

import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.servers.short_java import set_spark_variables
from tests.spark_source.session import make_session

END_S = 600.0


def main() -> int:
    set_spark_variables()
    session = make_session()
    gateway = session.sparkContext._gateway
    assert gateway is not None
    with tempfile.TemporaryDirectory() as folder:
        _work(session, Path(folder))
    session.stop()
    gateway.shutdown()
    java = gateway.proc  # Java ends with its stdin, and writes the archive then
    java.stdin.close()
    java.wait(END_S)
    return 0


def _work(session: SparkSession, folder: Path) -> None:
    """Parquet written and read, rows and Arrow through Python, a stream with a checkpoint."""
    numbers = session.range(100).selectExpr("id", "id % 7 AS part", "cast(id AS string) AS text")
    numbers.write.parquet(str(folder / "numbers"))
    read = session.read.parquet(str(folder / "numbers"))
    assert read.groupBy("part").count().orderBy("part").count() == 7
    mapped = read.mapInArrow(lambda batches: batches, read.schema)
    assert mapped.where("part = 1").count() == read.where("part = 1").count()
    session.createDataFrame([(1, "a")], "id int, text string").collect()
    stream = session.readStream.schema(read.schema).parquet(str(folder / "numbers"))
    query = (
        stream.writeStream.foreachBatch(_collect)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _collect(rows: DataFrame, number: int) -> None:
    rows.collect()


if __name__ == "__main__":
    sys.exit(main())
