"""The examples run, and what they find is true."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark_source.log_on_disk import LogOnDisk
from tests.spark_source.places import LogstorePlace, Written
from tests.spark_source.reads import TIME_MS

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
CITIES = ("Oslo", "Lima", "Pune")


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A log whose topic `orders` has 30 orders in 2 partitions."""
    with LogOnDisk(tmp_path_factory.mktemp("examples") / "log") as log:
        place = LogstorePlace(log)
        place.create_topic("orders", 2)
        for number in range(30):
            order = {"id": number, "city": CITIES[number % 3], "amount": 1.5}
            record = Written(TIME_MS + number, json.dumps(order).encode())
            place.append("orders", number % 2, [record])
        yield Path(log.directory)


@pytest.fixture
def run(spark: SparkSession, orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LOG", str(orders))
    monkeypatch.setenv("TABLE", str(tmp_path / "table"))
    monkeypatch.setenv("CHECKPOINT", str(tmp_path / "checkpoint"))
    return lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_a_topic_is_read_as_a_table(run: Any) -> None:
    found = run("read_a_topic")

    assert found["by_city"].collect() == [("Lima", 15.0), ("Oslo", 15.0), ("Pune", 15.0)]
    assert found["count_by_partition"].collect() == [(0, 15, 14), (1, 15, 14)]
    assert found["recent_count"] == 16


def test_a_whole_topic_is_one_relation(run: Any, spark: SparkSession) -> None:
    try:
        found = run("whole_topic")

        assert found["records"] == 30
        assert found["by_partition"].collect() == [(0, 0, 14, 15), (1, 0, 14, 15)]
        assert found["latest"].count() == 2
    finally:
        spark.sql("drop view if exists live_orders")
        spark.sql("drop table if exists logstore_records")


def test_a_table_is_written_once_however_often_it_runs(run: Any) -> None:
    for _ in range(2):
        found = run("stream_to_a_table")
        assert (found["records"], found["doubled"]) == (30, 0)


def test_lag_is_watched(run: Any) -> None:
    found = run("watch_lag")

    assert [(one.query, one.partition, one.lag) for one in found["lags"]] == [
        ("to nowhere", 0, 0),
        ("to nowhere", 1, 0),
    ]
    assert (
        'logstore_spark_next_offset{query="to nowhere",topic="orders",partition="1"} 15'
        in (found["metrics"])
    )


def test_a_job_moves_from_kafka(run: Any) -> None:
    assert run("move_from_kafka")["moved_count"] == 30
