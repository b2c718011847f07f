"""The sink in real Spark, against a real broker process: each row once, whatever is repeated."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from logstore.records.murmur2 import partition_for_key
from spark_source import write_topic
from tests.spark_source.sink.driver import file_stream
from tests.spark_source.sink.log import ServedLog, served_log

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    with served_log(tmp_path_factory.mktemp("sink")) as served:
        yield served


def numbered(spark: SparkSession, count: int, first: int = 0) -> DataFrame:
    return spark.range(first, first + count, numPartitions=2).selectExpr(
        "cast(id as string) as key", "cast(concat('v', id) as binary) as value"
    )


def values_of(count: int, first: int = 0) -> list[bytes]:
    return sorted(b"v%d" % number for number in range(first, first + count))


def write(rows: DataFrame, log: ServedLog, topic: str, **options: str) -> None:
    rows.write.format("logstore").mode("append").options(
        path=log.url, topic=topic, **options
    ).save()


def add_file(spark: SparkSession, folder: Path, count: int, first: int = 0) -> None:
    """One more file of rows: a micro-batch of a stream."""
    numbered(spark, count, first).coalesce(1).write.mode("append").parquet(str(folder))


def run_stream(
    spark: SparkSession,
    log: ServedLog,
    folder: Path,
    target: str,
    checkpoint: Path,
    options: Mapping[str, str] | None = None,
) -> str:
    """Write what a folder has beyond the checkpoint. Returns the id of the query."""
    rows = file_stream(spark, str(folder))
    return run(rows, log, target, checkpoint, options)


def run(
    rows: DataFrame,
    log: ServedLog,
    target: str,
    checkpoint: Path,
    options: Mapping[str, str] | None = None,
) -> str:
    query = write_topic(
        rows,
        log.url,
        target,
        checkpoint=str(checkpoint),
        trigger={"availableNow": True},
        options=options,
    )
    assert query is not None
    query.awaitTermination()
    return str(query.id)


def reason(error: Any) -> str:
    return str(error.value)


def test_a_batch_is_written_once_with_keys_where_kafkas_clients_put_them(
    spark: SparkSession, log: ServedLog
) -> None:
    log.create("batch", 3)
    write(numbered(spark, 2000), log, "batch")

    found = log.records("batch")
    assert log.values("batch") == values_of(2000)
    for partition, records in found.items():
        assert all(partition_for_key(record.key or b"", 3) == partition for record in records)
    rows = spark.read.format("logstore").options(path=log.url, subscribe="batch").load()
    assert sorted(row.value for row in rows.select("value").collect()) == values_of(2000)


def test_columns_of_every_kind_arrive_as_they_were(spark: SparkSession, log: ServedLog) -> None:
    log.create("columns-a", 2)
    log.create("columns-b", 4)
    rows = spark.sql(
        """select * from values
        ('columns-a', 'k', binary('v'), 1, timestamp_millis(unix_millis(current_timestamp())),
         array(named_struct('key', 'h', 'value', binary('1')))),
        ('columns-b', null, null, 3, null, null)
        as t(topic, key, value, partition, timestamp, headers)
        """
    )
    rows.write.format("logstore").mode("append").option("path", log.url).save()

    (first,) = log.records("columns-a")[1]
    assert (first.key, first.value, list(first.headers)) == (b"k", b"v", [("h", b"1")])
    (second,) = log.records("columns-b")[3]
    assert (second.key, second.value, list(second.headers)) == (None, None, [])


def test_a_write_of_much_is_staged_in_objects(spark: SparkSession, log: ServedLog) -> None:
    log.create("much", 3)
    rows = spark.range(0, 30_000, numPartitions=2).selectExpr(
        "cast(null as string) as key", "concat(id, '-', repeat('x', 1000)) as value"
    )
    write(rows, log, "much", compression="none")

    found = log.values("much")
    assert len(found) == len(set(found)) == 30_000
    staged = [path for path in Path(log.url, "staging").rglob("*-*-*") if path.is_file()]
    assert len(staged) >= 4


def test_a_version_is_written_once_however_often(spark: SparkSession, log: ServedLog) -> None:
    """As `foreachBatch` and repeated jobs do."""
    log.create("versions")
    for version, first in ((1, 0), (1, 0), (2, 100), (1, 0), (2, 100), (3, 200)):
        rows = numbered(spark, 100, first)
        write(rows, log, "versions", txnAppId="job", txnVersion=str(version))

    assert log.values("versions") == values_of(300)


def test_a_stream_copies_a_topic_as_it_is_read_and_goes_on_from_its_checkpoint(
    spark: SparkSession, log: ServedLog, tmp_path: Path
) -> None:
    log.create("from", 2)
    log.create("to", 5)

    def copy() -> None:
        rows = spark.readStream.format("logstore").options(
            path=log.url, subscribe="from", startingOffsets="earliest", maxOffsetsPerTrigger="600"
        )
        run(rows.load(), log, "to", tmp_path / "c")

    write(numbered(spark, 1500), log, "from")
    copy()
    write(numbered(spark, 300, 1500), log, "from")
    copy()

    assert log.values("to") == values_of(1800)


def forget_commits(checkpoint: Path, first: int) -> None:
    """Put a checkpoint back to where the batches from `first` on were not committed."""
    for file in (checkpoint / "commits").iterdir():
        number = file.name.strip(".").split(".")[0]
        if number.isdecimal() and int(number) >= first:
            file.unlink()


def test_a_checkpoint_restored_to_an_older_copy_doubles_nothing(
    spark: SparkSession, log: ServedLog, tmp_path: Path
) -> None:
    log.create("older", 2)
    for number in range(3):
        add_file(spark, tmp_path / "rows", 300, 300 * number)
        run_stream(spark, log, tmp_path / "rows", "older", tmp_path / "c")
    forget_commits(tmp_path / "c", 2)
    add_file(spark, tmp_path / "rows", 100, 900)
    run_stream(spark, log, tmp_path / "rows", "older", tmp_path / "c")

    assert log.values("older") == values_of(1000)


def test_a_new_checkpoint_with_the_sink_id_of_an_old_one_writes_all_of_its_rows(
    spark: SparkSession, log: ServedLog, tmp_path: Path
) -> None:
    log.create("shared", 1)
    add_file(spark, tmp_path / "rows", 10)
    options = {"sinkId": "shared"}
    for checkpoint in ("a", "b", "b"):
        run_stream(spark, log, tmp_path / "rows", "shared", tmp_path / checkpoint, options)

    assert log.values("shared") == sorted(2 * values_of(10))


def test_a_topic_created_again_ends_the_query_until_its_sink_has_another_id(
    spark: SparkSession, log: ServedLog, tmp_path: Path
) -> None:
    log.create("again", 1)
    add_file(spark, tmp_path / "rows", 10)
    run_stream(spark, log, tmp_path / "rows", "again", tmp_path / "c")
    forget_commits(tmp_path / "c", 0)
    log.recreate("again", 1)

    with pytest.raises(PySparkException) as error:
        run_stream(spark, log, tmp_path / "rows", "again", tmp_path / "c")
    assert "created again" in reason(error) and "new sinkId" in reason(error)
    run_stream(spark, log, tmp_path / "rows", "again", tmp_path / "c", {"sinkId": "new"})
    assert log.values("again") == values_of(10)


def test_partitions_added_between_two_writes_lose_and_double_nothing(
    spark: SparkSession, log: ServedLog
) -> None:
    """A write may count the partitions of a second ago."""
    log.create("grown", 1)
    write(numbered(spark, 100), log, "grown")
    log.grow("grown", 4)
    write(numbered(spark, 100, 100), log, "grown")

    assert log.values("grown") == values_of(200)


def test_at_least_once_sends_by_produce(
    spark: SparkSession, log: ServedLog, tmp_path: Path
) -> None:
    log.create("sent", 3)
    options = {"delivery": "at-least-once"}
    write(numbered(spark, 1000), log, "sent", **options)
    add_file(spark, tmp_path / "rows", 500, 1000)
    run_stream(spark, log, tmp_path / "rows", "sent", tmp_path / "c", options)

    assert log.values("sent") == values_of(1500)


BAD_ROWS = [
    ("select binary(repeat('x', 3000)) as value", "record larger than its topic allows: row=0"),
    ("select binary('x') as value, 9 as partition", "no such partition: row=0 topic=bad"),
    ("select binary('x') as value, timestamp'2201-01-01' as timestamp", "timestamp out of range"),
]


@pytest.mark.parametrize("query, text", BAD_ROWS)
def test_a_bad_row_fails_the_write_and_is_named(
    spark: SparkSession, log: ServedLog, query: str, text: str
) -> None:
    log.create_once("bad", 1, **{"max.message.bytes": "1000"})
    with pytest.raises(PySparkException) as error:
        write(spark.sql(query), log, "bad", compression="none")
    assert text in reason(error)
    assert "topic=bad" in reason(error)
    assert not log.records("bad")


def test_what_cannot_be_written_is_refused_before_any_row_is_read(
    spark: SparkSession, log: ServedLog
) -> None:
    log.create_once("refused", 1)
    rows = numbered(spark, 1)
    refused: list[tuple[DataFrame, dict[str, str], str]] = [
        (rows, {"delivery": "twice"}, "option delivery is neither"),
        (rows, {"sinkId": "s"}, "option sinkId is for streams"),
        (rows.selectExpr("value", "1L as id"), {}, "no record has a column of this name"),
        (rows.selectExpr("1 as value"), {}, "column value is of another type: int"),
        (rows, {"topic": "nowhere"}, "no such topic: topic=nowhere; create it first"),
    ]
    for given, options, text in refused:
        with pytest.raises(PySparkException) as error:
            write(given, log, **{"topic": "refused", **options})
        assert text in reason(error)
    with pytest.raises(PySparkException) as error:
        rows.write.format("logstore").mode("overwrite").options(
            path=log.url, topic="refused"
        ).save()
    assert 'write with mode("append")' in reason(error)
