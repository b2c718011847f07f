"""One read of a topic by Spark, measured: `python -m benchmarks.spark.read_job ASKED ANSWER`.

The same query runs until two reads in a row take as long within 5 %: Java compiles, Python imports.
What each must have read is checked, so that nothing is fast by leaving out rows.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, crc32, lit
from pyspark.sql.functions import sum as sum_of

from benchmarks.peers.log_place import LogPlace
from benchmarks.spark.session import make_session
from benchmarks.spark.tree import spent_by, spent_here, worker_peak_bytes
from benchmarks.warm import warmed

PROFILER = "spark.sql.pyspark.dataSource.profiler"


def main() -> int:
    asked_at, answer_at = map(Path, sys.argv[1:])
    asked = json.loads(asked_at.read_text())
    settings = {PROFILER: "perf"} if asked["profiles"] else {}
    spark = make_session(asked["jars"], Path(asked["directory"]), settings)
    job = ReadJob(spark, asked)
    found = warmed(asked.get("name", "read"), partial(_measure, job, asked), "wall_s")
    answer_at.write_text(json.dumps(found))
    if asked["profiles"]:
        _dump(spark, Path(asked["profiles"]), asked["name"])
    spark.stop()
    return 0


def _measure(job: "ReadJob", asked: Mapping[str, Any]) -> dict[str, float]:
    place = LogPlace(url="", proxy=asked.get("proxy"))
    load, spent, brokers_s = os.getloadavg()[0], spent_here(), spent_by(asked["brokers"])
    before, began_s = place.fetched(), time.perf_counter()
    job.read()
    wall_s, after = time.perf_counter() - began_s, place.fetched()
    used = spent_here().since(spent)
    found = {
        "wall_s": wall_s,
        "java_s": used.java_s,
        "python_s": used.python_s,
        "brokers_s": spent_by(asked["brokers"]) - brokers_s,
        "worker_peak_bytes": worker_peak_bytes(),
        "load": load,
    }
    if before is not None and after is not None:
        found |= {"gets": after.gets - before.gets, "got_bytes": after.got_bytes - before.got_bytes}
    job.check()
    return found


def _dump(spark: SparkSession, folder: Path, name: str) -> None:
    """The profiles of Python workers in both reads, as `benchmarks.profile_report` looks for it."""
    spark.profile.dump(str(folder), type="perf")
    for number, path in enumerate(sorted(folder.glob("*.pstats"))):
        path.rename(folder / f"{name}, Python workers {number}.prof")


class ReadJob:
    """A query that is asked for by mode (batch, stream) and sink (noop, sum, delta)."""

    def __init__(self, spark: SparkSession, asked: Mapping[str, Any]) -> None:
        self._spark = spark
        self._format: str = asked["format"]
        self._topic: Mapping[str, Any] = asked["topic"]
        wanted = {"subscribe": self._topic["name"], "startingOffsets": "earliest"}
        self._options: Mapping[str, str] = {**asked["options"], **wanted}
        self._directory = Path(asked["directory"])
        self._is_stream = asked["mode"] == "stream"
        self._sink: str = asked["sink"]
        self._sums: list[tuple[int, int]] = []
        self._rows = self._reads = 0

    def read(self) -> None:
        """All of the topic, once more."""
        self._reads += 1
        self._sums.clear()
        if self._is_stream:
            self._stream()
        else:
            self._batch()

    def check(self) -> None:
        """The last read had all rows, and all bytes of their values, as far as its sink tells."""
        rows, crc = self._topic["rows"], self._topic["crc"]
        if self._is_stream:
            assert self._rows == rows, f"the stream had {self._rows} rows of {rows}"
        if self._sink == "sum":
            assert self._sums == [(rows, crc)], f"{self._sums} instead of {rows} rows, sum {crc}"
        elif self._sink == "delta":
            written = self._spark.read.format("delta").load(self._table).count()
            assert written == rows, f"the table has {written} rows of {rows}"

    def _batch(self) -> None:
        frame = self._spark.read.format(self._format).options(**self._options).load()
        match self._sink:
            case "noop":
                frame.write.format("noop").mode("overwrite").save()
            case "delta":
                frame.write.format("delta").save(self._table)
            case _:
                self._sum(frame)

    def _stream(self) -> None:
        frame = self._spark.readStream.format(self._format).options(**self._options).load()
        checkpoint = str(self._directory / f"checkpoint-{self._reads}")
        writer = frame.writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", checkpoint)
        match self._sink:
            case "noop":
                query = writer.format("noop").start()
            case "delta":
                query = writer.format("delta").start(self._table)
            case _:
                query = writer.foreachBatch(lambda rows, _number: self._sum(rows)).start()
        query.awaitTermination()
        self._rows = sum(one.numInputRows for one in query.recentProgress)

    def _sum(self, frame: DataFrame) -> None:
        sums = frame.select(count(lit(1)), sum_of(crc32(col("value")))).collect()[0]
        if sums[0]:  # a stream that starts may begin with an empty batch
            self._sums.append((sums[0], sums[1]))

    @property
    def _table(self) -> str:
        return str(self._directory / f"table-{self._reads}")


if __name__ == "__main__":
    sys.exit(main())
