"""Filters of a query narrow what is planned, in real Spark, where its session lets them."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from logstore.records.encode import encode_batch, records_of
from spark_source import read_topic, table
from spark_source.settings import FILTERS
from tests.spark_source.log_on_disk import LogOnDisk

pytestmark = pytest.mark.spark

TIME_MS = 1_700_000_000_123
WANTED = "partition in (1, 2) and offset >= 20 and offset < 30"


def read(spark: SparkSession, log: LogOnDisk) -> DataFrame:
    """A task for every ten offsets, so their number says how many are read."""
    options = {"subscribe": "orders", "maxRecordsPerPartition": "10", "pushFilters": "true"}
    return spark.read.format("logstore").load(str(log.directory), **options)


def test_filters_narrow_what_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    with LogOnDisk(tmp_path / "log") as log:
        log.create_topic("orders", 4)
        for number in range(4):
            some = encode_batch(records_of([(None, b"v")] * 20, timestamp=TIME_MS))
            log.append("orders", number, some, some)
    where = str(log.directory)

    with pytest.raises(PySparkException, match=FILTERS):
        read(spark, log).collect()
    spark.conf.set(FILTERS, "true")
    try:
        rows = read(spark, log)
        by_call, by_table = read_topic(spark, where, "orders"), table(spark, where, "orders")
        assert [one.rdd.getNumPartitions() for one in (rows, rows.where(WANTED))] == [16, 2]
        for one in (rows, by_call, by_table):
            found = {(row.partition, row.offset) for row in one.where(WANTED).collect()}
            assert found == {(number, n) for number in (1, 2) for n in range(20, 30)}
        assert not rows.where("partition = 3 and timestamp > timestamp'2100-01-01'").collect()
    finally:
        spark.conf.unset(FILTERS)
    assert read_topic(spark, where, "orders").where(WANTED).count() == 20
