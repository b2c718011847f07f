"""The source in real Spark: batch, stream, restarts. One session, which takes seconds to start."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from logstore.errors import Invalid
from logstore.ports.clock import SystemClock, blocking_sleep_s
from logstore.records.batch import CODECS
from logstore.records.encode import encode_batch, records_of
from logstore.records.record import Record
from logstore.wiring.initialise import InitPorts, initialise
from spark_source import read_topic, table
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.tables import new_table_url
from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.moved import Mover
from tests.spark_source.places import raise_log_start

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
TIME_MS = 1_700_000_000_123


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    with LogOnDisk(tmp_path / "log") as log:
        yield log


def batch_reader(spark: SparkSession, log: LogOnDisk, **options: str) -> DataFrameReader:
    reader = spark.read.format("logstore").option("path", str(log.directory))
    return reader.options(**{"subscribe": "orders", **options})


def stream_reader(spark: SparkSession, log: LogOnDisk, **options: str) -> DataStreamReader:
    reader = spark.readStream.format("logstore").option("path", str(log.directory))
    return reader.options(**{"subscribe": "orders", "startingOffsets": "earliest", **options})


def run_available(rows: DataFrame, checkpoint: Path, output: Path) -> list[dict[str, Any]]:
    """Read what is there into Parquet; the progress of each batch."""
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(output))
    )
    query.awaitTermination()
    return [dict(progress) for progress in query.recentProgress]


def numbered(first: int, count: int) -> bytes:
    """A batch whose values are the numbers from `first` on."""
    values = [(None, b"%d" % number) for number in range(first, first + count)]
    return encode_batch(records_of(values, timestamp=TIME_MS))


def numbers_in(spark: SparkSession, output: Path) -> list[int]:
    rows = spark.read.parquet(str(output)).selectExpr("cast(cast(value as string) as int) as n")
    return sorted(row.n for row in rows.collect())


# Batch


def test_a_batch_reads_every_record_of_every_life_and_codec(
    spark: SparkSession, tmp_path: Path
) -> None:
    values: list[bytes] = []
    ends: list[int] = []
    with LogOnDisk(tmp_path / "log") as log:
        log.create_topic("orders", 3)
    for life in range(3):
        with LogOnDisk(tmp_path / "log") as log:
            for number in range(20):
                here = [b"%d.%d.%d" % (life, number, n) * 20 for n in range(7)]
                records = records_of([(b"k", value) for value in here], timestamp=TIME_MS + number)
                codec = CODECS[number % len(CODECS)]
                log.append("orders", number % 3, encode_batch(records, compression=codec))
                values += here
            ends = [log.end("orders", partition) for partition in range(3)]

    rows = batch_reader(spark, log).load()
    sums = rows.selectExpr("count(*) as n", "sum(crc32(value)) as crc", "min(timestamp) as t")
    (found,) = sums.collect()
    by_partition = rows.groupBy("partition").agg({"offset": "max", "key": "count"}).collect()

    assert found.n == len(values) == sum(ends)
    assert found.crc == sum(zlib.crc32(value) for value in values)
    assert found.t.microsecond == 123_000
    assert {row.partition: row["max(offset)"] + 1 for row in by_partition} == dict(enumerate(ends))
    assert {row.partition: row["count(key)"] for row in by_partition} == dict(enumerate(ends))
    assert rows.select("topic", "timestampType").distinct().collect() == [("orders", 0)]


def test_a_batch_reads_the_offsets_it_is_given_and_nothing_where_there_is_nothing(
    spark: SparkSession, log: LogOnDisk
) -> None:
    log.create_topic("orders", 2)
    assert batch_reader(spark, log).load().count() == 0
    log.append("orders", 0, numbered(0, 50))
    log.append("orders", 1, numbered(50, 50))

    reported = {
        "startingOffsets": '{"orders":{"0":40}}',
        "endingOffsets": '{"orders":{"0":45,"1":1}}',
    }
    rows = batch_reader(spark, log, **reported).load().select("partition", "offset").collect()
    assert sorted(rows) == [*((0, n) for n in range(40, 45)), (1, 0)]


def test_headers_nulls_and_a_schema_of_few_columns(spark: SparkSession, log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    headers = (("trace", b"\x00\xff"), ("none", None))
    records = [Record(0, TIME_MS, None, b"v", headers), Record(1, TIME_MS, b"k", None)]
    log.append("orders", 0, encode_batch(records))

    plain = batch_reader(spark, log).load()
    first, second = batch_reader(spark, log, includeHeaders="true").load().collect()
    few = batch_reader(spark, log).schema("offset bigint, topic string").load()

    assert "headers" not in plain.columns
    assert first.headers == [("trace", b"\x00\xff"), ("none", None)]
    assert (first.key, first.value, second.key, second.value) == (None, b"v", b"k", None)
    assert second.headers == []
    assert few.collect() == [(0, "orders"), (1, "orders")]


def test_sql_and_more_partitions(spark: SparkSession, log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    for number in range(12):
        log.append("orders", 0, numbered(number, 1))
    spark.sql(
        "create or replace temporary view orders using logstore "
        f"options (path '{log.directory}', subscribe 'orders')"
    )

    assert spark.sql("select max(offset) as last from orders").collect() == [(11,)]
    assert batch_reader(spark, log).load().rdd.getNumPartitions() == 1
    assert batch_reader(spark, log, minPartitions="5").load().rdd.getNumPartitions() == 5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "returns"}, "no such topic: returns"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"kafka.key.deserializer": "x"}, "as in Spark's Kafka source; keys are binary"),
        ({"assign": "{}"}, "subscribe and assign exclude each other"),
        ({"minPartitions": "many"}, "minPartitions is not a whole number above 0: 'many'"),
        ({"startingOffsets": "latest"}, "a batch cannot start at latest"),
        ({"startingOffsets": '{"orders":{"0":7}}'}, "beyond the end: topic=orders partition=0"),
        ({"path": "/nowhere"}, "no log here: url=/nowhere"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(
    spark: SparkSession, log: LogOnDisk, options: dict[str, str], says: str
) -> None:
    log.create_topic("orders", 1)

    with pytest.raises(PySparkException, match=says):
        batch_reader(spark, log, **options).load().count()


def test_a_topic_is_read_in_one_call(spark: SparkSession, log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    log.create_topic("returns", 1)
    log.append("orders", 0, numbered(0, 5))
    log.append("returns", 0, numbered(5, 5))
    url = str(log.directory)

    both = read_topic(spark, url, ["orders", "returns"], columns=["offset", "topic"])
    assert both.columns == ["offset", "topic"]
    assert both.count() == 10
    seen: list[int] = []
    rows = read_topic(spark, url, "orders", stream=True, startingOffsets="earliest")
    _collecting(rows, seen).trigger(availableNow=True).start().awaitTermination()
    assert sorted(seen) == list(range(5))
    with pytest.raises(Invalid, match="the source has no column: colour"):
        read_topic(spark, url, "orders", columns=["colour"])


def test_a_damaged_segment_ends_a_query_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        log.create_topic("orders", 1)
        log.append("orders", 0, numbered(0, 10))
        rows = batch_reader(spark, log).load()
        assert rows.count() == 10
        damaged = max((tmp_path / "log" / "chains").glob("*/*/*"), key=lambda p: p.stat().st_size)
        data = bytearray(damaged.read_bytes())
        data[-3] ^= 1
        damaged.write_bytes(data)
        says = "batch is damaged: chain=1 .*topic=orders partition=0 offset=0 to 9"
        with pytest.raises(PySparkException, match=says):
            rows.count()


def test_a_schema_of_other_columns_is_refused(spark: SparkSession, log: LogOnDisk) -> None:
    log.create_topic("orders", 1)

    with pytest.raises(PySparkException, match="the source has no column: value string"):
        batch_reader(spark, log).schema("value string").load().count()


def test_a_log_in_a_bucket_is_read_alike(spark: SparkSession) -> None:
    endpoint = locked_moto()
    url, registry = new_location(endpoint).url, new_table_url(endpoint)
    storage = {"storage.endpoint": endpoint}
    around = InitPorts(SystemClock(), random.Random(1), blocking_sleep_s, "test")
    with aws_environment():
        initialise(url, str(registry), storage, around)
        with LogOnDisk(url, storage) as log:
            topic_id = log.create_topic("orders", 2)
            log.append("orders", 0, numbered(0, 50))
            Mover(url, topic_id, storage=storage).move()
            log.append("orders", 1, numbered(50, 50))

    batch = batch_reader(spark, log, **storage).load()
    seen: list[int] = []
    stream = _collecting(stream_reader(spark, log, **storage).load(), seen)
    stream.trigger(availableNow=True).start().awaitTermination()

    counted = ["sum(int(string(value))) as n"]
    assert batch.selectExpr(*counted).collect() == [(sum(range(100)),)]
    assert sorted(seen) == list(range(100))
    with aws_environment():
        whole = table(spark, url, "orders", options=storage)
    assert whole.selectExpr(*counted).collect() == [(sum(range(100)),)]


# Streams


def test_available_now_reads_what_is_there_in_limited_batches_and_goes_on_from_there(
    spark: SparkSession, log: LogOnDisk, tmp_path: Path
) -> None:
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    log.create_topic("orders", 2)
    log.append("orders", 0, numbered(0, 60))
    log.append("orders", 1, numbered(60, 40))

    rows = stream_reader(spark, log, maxOffsetsPerTrigger="50").load()
    first = run_available(rows, checkpoint, output)
    assert [progress["numInputRows"] for progress in first] == [50, 50]
    assert numbers_in(spark, output) == list(range(100))

    assert all(p["numInputRows"] == 0 for p in run_available(rows, checkpoint, output))
    log.append("orders", 1, numbered(100, 30))
    second = run_available(rows, checkpoint, output)
    assert sum(progress["numInputRows"] for progress in second) == 30
    assert numbers_in(spark, output) == list(range(130))


def test_a_running_query_sees_what_is_written_while_it_runs(
    spark: SparkSession, log: LogOnDisk
) -> None:
    log.create_topic("orders", 3)
    seen: list[int] = []
    query = _collecting(stream_reader(spark, log).load(), seen).start()

    def write() -> None:
        for number in range(300):
            log.append("orders", number % 3, numbered(10 * number, 10))

    writer = threading.Thread(target=write)
    writer.start()
    writer.join()
    query.processAllAvailable()
    query.stop()

    assert sorted(seen) == list(range(3000))


def test_a_start_at_latest_reads_only_what_comes_after_it(
    spark: SparkSession, log: LogOnDisk
) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, numbered(0, 10))
    seen: list[int] = []
    query = _collecting(stream_reader(spark, log, startingOffsets="latest").load(), seen).start()
    query.processAllAvailable()
    assert seen == []
    log.append("orders", 0, numbered(10, 5))
    query.processAllAvailable()
    progress = [dict(one) for one in query.recentProgress if one["numInputRows"]]
    query.stop()

    assert seen == list(range(10, 15))
    (source,) = progress[-1]["sources"]
    for name in ("endOffset", "latestOffset"):
        assert json.loads(source[name])["topics"]["orders"]["next"] == {"0": 15}


def test_a_batch_that_failed_comes_again_as_it_was(
    spark: SparkSession, log: LogOnDisk, tmp_path: Path
) -> None:
    log.create_topic("orders", 2)
    log.append("orders", 0, numbered(0, 40))
    log.append("orders", 1, numbered(40, 40))
    tried: list[tuple[int, list[int]]] = []
    failures = [RuntimeError("the sink is away")]

    def write(rows: DataFrame, number: int) -> None:
        tried.append((number, sorted(int(bytes(row.value)) for row in rows.collect())))
        if number == 1 and failures:
            raise failures.pop()

    def run() -> StreamingQuery:
        return (
            stream_reader(spark, log, maxOffsetsPerTrigger="30")
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    with pytest.raises(PySparkException, match="the sink is away"):
        run().awaitTermination()
    log.append("orders", 0, numbered(80, 40))
    run().awaitTermination()

    batches = dict(tried)
    assert [number for number, _ in tried] == [0, 1, 1, *range(2, len(batches))]
    assert tried[1] == tried[2]
    assert sorted(n for rows in batches.values() for n in rows) == list(range(120))


def test_a_first_batch_that_failed_is_the_same_or_ends_the_query(
    spark: SparkSession, log: LogOnDisk, tmp_path: Path
) -> None:
    """Of batch 0 Spark stores the end, and not where it began."""
    topic_id = log.create_topic("orders", 1)
    log.append("orders", 0, *[numbered(10 * n, 10) for n in range(6)])
    tried: list[list[int]] = []

    def write(rows: DataFrame, _number: int) -> None:
        tried.append(sorted(int(bytes(row.value)) for row in rows.collect()))
        raise RuntimeError("the sink is away")

    def run() -> None:
        rows = stream_reader(spark, log).load().writeStream.foreachBatch(write)
        query = rows.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    for _ in range(2):
        with pytest.raises(PySparkException, match="the sink is away"):
            run()
    raise_log_start(Path(log.directory), topic_id, 0, 10)
    with pytest.raises(PySparkException, match=r"records of this query are gone.*offset=0 there="):
        run()

    assert tried == [list(range(60))] * 2


def test_a_killed_driver_loses_nothing_and_doubles_nothing(
    spark: SparkSession, log: LogOnDisk, tmp_path: Path
) -> None:
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    log.create_topic("orders", 3)
    log.append_all([("orders", n % 3, numbered(10 * n, 10)) for n in range(200)])
    names = [str(log.directory), str(checkpoint), str(output)]
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.spark_source.killed_driver", *names],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert driver.stdout is not None
        reported = [driver.stdout.readline() for _ in range(3)]
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
    assert reported == ["batch 0\n", "batch 1\n", "batch 2\n"]
    log.append_all([("orders", n % 3, numbered(10 * n, 10)) for n in range(200, 210)])

    run_available(stream_reader(spark, log).load(), checkpoint, output)

    assert numbers_in(spark, output) == list(range(2100))


def test_a_killed_reader_process_ends_the_query_and_the_next_run_goes_on(
    spark: SparkSession, log: LogOnDisk, tmp_path: Path
) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, numbered(0, 10))
    seen: list[int] = []

    def start() -> StreamingQuery:
        rows = _collecting(stream_reader(spark, log).load(), seen)
        query: StreamingQuery = rows.option("checkpointLocation", str(tmp_path / "c")).start()
        return query

    query = start()
    query.processAllAvailable()
    (reader,) = [
        child
        for child in psutil.Process().children(recursive=True)
        if "python_streaming_source_runner" in command_of(child)
    ]
    reader.kill()
    with pytest.raises(PySparkException):
        query.awaitTermination(60)
    log.append("orders", 0, numbered(10, 5))
    query = start()
    query.processAllAvailable()
    query.stop()

    assert sorted(seen) == list(range(15))


def command_of(process: psutil.Process) -> str:
    """Empty for one that has ended, as workers of earlier queries do at any moment."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def test_a_topic_created_again_stops_a_query_unless_it_may_lose_data(
    spark: SparkSession, log: LogOnDisk, tmp_path: Path
) -> None:
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    log.create_topic("orders", 1)
    log.append("orders", 0, numbered(0, 10))
    run_available(stream_reader(spark, log).load(), checkpoint, output)
    log.delete_topic("orders")
    with pytest.raises(PySparkException, match="topic was deleted"):
        run_available(stream_reader(spark, log).load(), checkpoint, output)
    log.create_topic("orders", 1)
    log.append("orders", 0, numbered(10, 3))

    with pytest.raises(PySparkException, match="deleted and created again: topic=orders"):
        run_available(stream_reader(spark, log).load(), checkpoint, output)
    rows = stream_reader(spark, log, failOnDataLoss="false").load()
    run_available(rows, checkpoint, output)

    assert numbers_in(spark, output) == list(range(13))


def test_a_stream_has_no_end_to_be_given(spark: SparkSession, log: LogOnDisk) -> None:
    log.create_topic("orders", 1)
    rows = stream_reader(spark, log, endingOffsets="latest").load()

    with pytest.raises(PySparkException, match="endingOffsets is for batch reads only"):
        rows.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()


def _collecting(rows: DataFrame, seen: list[int]) -> Any:
    def collect(batch: DataFrame, _number: int) -> None:
        seen.extend(int(bytes(row.value)) for row in batch.collect())

    return rows.writeStream.foreachBatch(collect)
