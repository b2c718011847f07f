"""Topics defined by SQL: tables and views of the catalog, views of a session; in real Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from logstore.records.encode import encode_batch, records_of
from tests.spark_source.log_on_disk import LogOnDisk

pytestmark = pytest.mark.spark


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    with LogOnDisk(tmp_path / "log") as log:
        yield log


def numbered(first: int, count: int) -> bytes:
    """A batch whose values are the numbers from `first` on."""
    values = [(None, b"%d" % number) for number in range(first, first + count)]
    return encode_batch(records_of(values, timestamp=1))


def test_a_table_of_the_catalog_needs_its_options_at_each_read(
    spark: SparkSession, log: LogOnDisk
) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, numbered(0, 5))
    options = f"(path '{log.directory}', subscribe 'orders')"
    spark.sql(f"create table orders_table using logstore options {options}")
    try:
        log.append("orders", 0, numbered(5, 3))
        with_options = f"with (path='{log.directory}', subscribe='orders')"
        counted = spark.sql(f"select count(*) as n from orders_table {with_options}")
        assert counted.collect() == [(8,)]
        with pytest.raises(PySparkException, match="drops the options of CREATE TABLE"):
            spark.sql("select * from orders_table").collect()
    finally:
        spark.sql("drop table orders_table")


def test_a_view_of_the_catalog_is_defined_by_sql_alone_and_new_at_each_query(
    spark: SparkSession, log: LogOnDisk
) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, numbered(0, 5))
    spark.sql("create table logstore_records (offset bigint, value binary) using logstore")
    try:
        spark.sql(
            "create view orders_of_the_catalog as select * from logstore_records "
            f"with (path='{log.directory}', subscribe='orders')"
        )
        counted = (
            "select count(*) as n, max(offset) as last from orders_of_the_catalog where offset > 1"
        )
        assert spark.sql(counted).collect() == [(3, 4)]
        log.append("orders", 0, numbered(5, 3))
        assert spark.sql(counted).collect() == [(6, 7)]
        assert spark.sql("select * from orders_of_the_catalog").columns == ["offset", "value"]
    finally:
        spark.sql("drop view if exists orders_of_the_catalog")
        spark.sql("drop table logstore_records")


def test_a_temporary_view_stays_at_the_moment_of_its_first_query(
    spark: SparkSession, log: LogOnDisk
) -> None:
    log.create_topic("orders", 1)
    log.append("orders", 0, numbered(0, 5))
    create = (
        "create or replace temporary view some_orders (offset bigint, leader_epoch int) "
        f"using logstore options (path '{log.directory}', subscribe 'orders')"
    )
    counted = "select count(*) from some_orders"

    spark.sql(create)
    assert spark.sql(counted).collect() == [(5,)]
    log.append("orders", 0, numbered(5, 3))
    assert spark.sql(counted).collect() == [(5,)]
    spark.sql(create)
    assert spark.sql(counted).collect() == [(8,)]
