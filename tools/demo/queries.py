"""Two streaming queries over the log, running while records come in."""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from logstore.reading.direct.reader import LogReader
from logstore.wiring.open import open_readable
from tools.demo.demo_log import DemoLog
from tools.demo.flights import SCHEMA
from tools.demo.produce import SEQ_HEADER, TOPIC

DELAYS = "delays"
TRIGGER = "2 seconds"
LOOK_EVERY_S = 0.25
STOP_TIMEOUT_S = 60.0


class QueryFailed(Exception): ...


@contextmanager
def running_queries(
    spark: SparkSession, log: DemoLog, table: Path, checkpoints: Path
) -> Iterator[Sequence[StreamingQuery]]:
    """Average delay and count by carrier and hour, in memory; every flight, in a Delta table."""
    queries = []
    try:
        queries.append(_start_delays(spark, log, checkpoints))
        queries.append(_start_table(spark, log, table, checkpoints))
        yield queries
    finally:
        for query in queries:
            query.stop()


def _start_delays(spark: SparkSession, log: DemoLog, checkpoints: Path) -> StreamingQuery:
    # Only the column it needs: Spark does not tell a Python source which ones a query uses.
    source = spark.readStream.schema("value binary").format("logstore")
    flights = source.options(**_options(log), startingOffsets="earliest").load()
    parsed = flights.select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("f"))
    return (
        parsed.groupBy("f.carrier", "f.hour")
        .agg(sf.avg("f.dep_delay").alias("delay"), sf.count("*").alias("flights"))
        .writeStream.format("memory")
        .queryName(DELAYS)
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoints / DELAYS))
        .trigger(processingTime=TRIGGER)
        .start()
    )


def _start_table(
    spark: SparkSession, log: DemoLog, table: Path, checkpoints: Path
) -> StreamingQuery:
    source = spark.readStream.format("logstore")
    records = source.options(**_options(log), startingOffsets="earliest").load()
    return (
        decoded(records)
        .writeStream.format("delta")
        .queryName("table")
        .outputMode("append")
        .option("checkpointLocation", str(checkpoints / "table"))
        .trigger(processingTime=TRIGGER)
        .start(str(table))
    )


def decoded(records: DataFrame) -> DataFrame:
    """Columns of a flight, after its place in the log and the number that its header holds."""
    numbered = sf.filter("headers", lambda header: header["key"] == SEQ_HEADER)
    return records.select(
        "partition",
        "offset",
        sf.element_at(numbered, 1)["value"].cast("string").cast("bigint").alias("seq"),
        sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("f"),
    ).select("partition", "offset", "seq", "f.*")


def log_records(spark: SparkSession, log: DemoLog) -> DataFrame:
    """All that the log holds now, read as a batch from its objects."""
    return spark.read.format("logstore").options(**_options(log)).load()


def _options(log: DemoLog) -> dict[str, str]:
    return {"path": log.url, "subscribe": TOPIC, "includeHeaders": "true", **log.storage}


def log_ends(log: DemoLog) -> dict[int, int]:
    """Where each partition of the topic ends now."""
    readable = open_readable(log.url, log.storage)
    try:
        reader = LogReader(readable)
        topic = reader.topics()[TOPIC]
        views = reader.partitions({TOPIC: topic})
    finally:
        readable.close()
    return {key.partition: view.end for key, view in views.items()}


def wait_for(queries: Sequence[StreamingQuery], ends: Mapping[int, int], timeout_s: float) -> None:
    """Until every query has read up to `ends`. Raises `QueryFailed`: it died, or takes too long."""
    deadline = time.perf_counter() + timeout_s
    pause = threading.Event()
    while True:
        behind = {query.name: _lag(query, ends) for query in queries}
        if not any(behind.values()):
            return
        for query in queries:
            if not query.isActive:
                raise query.exception() or QueryFailed(f"the query {query.name} ended early")
        if time.perf_counter() > deadline:
            raise QueryFailed(f"records not read in {timeout_s:.0f} s: {behind}")
        pause.wait(LOOK_EVERY_S)


def _lag(query: StreamingQuery, ends: Mapping[int, int]) -> int:
    """How many records the query has not read yet, as its last progress says."""
    progress = query.lastProgress
    text = progress["sources"][0]["endOffset"] if progress else None
    reached: dict[str, int] = json.loads(text)["topics"][TOPIC]["next"] if text else {}
    return sum(max(0, end - reached.get(str(number), 0)) for number, end in ends.items())
