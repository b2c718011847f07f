"""A topic as one relation in real Spark: nothing missing, nothing twice, while compaction runs."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from logstore.errors import Invalid
from spark_source import create_view, read_topic, table
from spark_source.planning.schema import TABLE_COLUMNS
from tests.spark_source.delta_jars import delta_jars
from tests.spark_source.growing import GrowingTopic, digest_of, new_log

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
WAIT_S = 500


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[GrowingTopic]:
    with new_log(tmp_path / "log") as log:
        yield GrowingTopic(log)


def test_at_every_step_of_compaction_the_relation_is_what_was_acknowledged(
    spark: SparkSession, topic: GrowingTopic
) -> None:
    views = []
    for step in topic.story():
        rows = table(spark, topic.url, "orders")
        views.append((step, rows, topic.digest()))
        assert digest_of(rows) == topic.digest(), step

    for step, rows, then in views[-4:]:
        assert rows.columns == list(TABLE_COLUMNS)
        assert digest_of(rows) == then, f"{step}: a relation left its moment"


def test_reads_beside_a_running_compaction_see_one_moment_each(
    spark: SparkSession, topic: GrowingTopic
) -> None:
    topic.append(20)
    done = threading.Event()
    failures: list[BaseException] = []

    def compact() -> None:
        try:
            while not done.is_set():
                topic.append(5)
                topic.mover.move()
                topic.mover.trim()
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        for _ in range(3):
            at_least = [len(sums) for sums in topic.sums]
            found = digest_of(table(spark, topic.url, "orders"))
            counts = [row[1] for row in found]
            assert found == topic.digest_of(counts)
            assert all(count >= least - 7 for count, least in zip(counts, at_least, strict=True))
            streamed = digest_of(read_topic(spark, topic.url, "orders"))
            assert streamed == topic.digest_of([row[1] for row in streamed])
    finally:
        done.set()
        thread.join(WAIT_S)
    assert not failures


def test_a_view_stays_until_it_is_made_again(spark: SparkSession, topic: GrowingTopic) -> None:
    topic.append(10)
    topic.mover.move({0: 35})
    counted = "select count(*) as n, max(leader_epoch) as epoch from orders_view"

    create_view(spark, topic.url, "orders", "orders_view")
    assert spark.sql(counted).collect() == [(140, 0)]
    topic.append(1)
    assert spark.sql(counted).collect() == [(140, 0)]
    create_view(spark, topic.url, "orders", "orders_view")
    assert spark.sql(counted).collect() == [(154, 0)]


def test_a_relation_is_of_one_life_of_its_topic(spark: SparkSession, topic: GrowingTopic) -> None:
    topic.append(1)
    rows = table(spark, topic.url, "orders")
    topic.log.delete_topic("orders")
    topic.log.create_topic("orders", 2)

    with pytest.raises(PySparkException, match="topic was deleted and created again: topic=orders"):
        rows.count()
    assert table(spark, topic.url, "orders").count() == 0
    with pytest.raises(Invalid, match="no such topic: returns"):
        table(spark, topic.url, "returns")
    with pytest.raises(Invalid, match="history is read by delta or logstore, not by: hive"):
        table(spark, topic.url, "orders", history="hive")


def test_delta_reads_history_pruned_by_filters_and_the_tail_follows_it(tmp_path: Path) -> None:
    jars = delta_jars()
    if not jars:
        pytest.skip("Delta's jars need Maven, once")
    answer = subprocess.run(
        [sys.executable, "-m", "tests.spark_source.delta_union", str(tmp_path), *map(str, jars)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=WAIT_S,
        check=True,
        text=True,
    )

    reported = json.loads(answer.stdout.splitlines()[-1])
    assert reported["wrong"] == []
    assert reported["steps"] == 8
    assert reported["columns"] == list(TABLE_COLUMNS)
    assert reported["schemas differ"] == []
    assert reported["files of partition 1"] < reported["files"]
    assert reported["after log start"] == reported["after log start by the source"]
    assert reported["optimized"]
