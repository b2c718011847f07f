"""Tasks on Spark: the same tables as without, by the same work."""

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from logstore.compaction.compactor import Compactor
from logstore.compaction.decisions.clean_rules import CleanLimits
from logstore.compaction.session import RunOptions
from spark_source.compaction.__main__ import carry_out_runs, parse
from spark_source.compaction.spark import SparkCarrier
from tests.logstore.compaction.keyed import KeyedTopic, random_records
from tests.logstore.compaction.world import LEASE_S, World

pytestmark = pytest.mark.spark


def compact(spark: SparkSession, world: World, **options: Any) -> Any:
    url = str(world.directory)
    compactor = Compactor(url, {}, SparkCarrier(spark, url, {}), lease_s=LEASE_S)
    try:
        return compactor.run(RunOptions(now=True, **options))
    finally:
        compactor.close()


@pytest.mark.timeout(300)
def test_spark_carries_out_the_tasks(spark: SparkSession, world: World) -> None:
    world.create("orders", 3)
    world.create("clicks", 1)
    world.fill(80)

    summary = compact(spark, world, task_bytes=1_000_000)

    assert summary.tasks > 2
    assert (summary.rows, summary.errors) == (800, [])
    world.check()
    world.fill(8)
    assert compact(spark, world).rows == 80
    world.check()


@pytest.mark.timeout(300)
def test_the_module_is_what_a_scheduler_submits(
    spark: SparkSession, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.create("orders", 2)
    world.fill()

    options = parse(["--url", str(world.directory), "--once", "--now"])
    assert carry_out_runs(options, spark) == 0

    assert "120 records of 1 topic" in capsys.readouterr().out
    world.check()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "limits",
    [
        CleanLimits(),
        CleanLimits(at_once_bytes=0),
        CleanLimits(in_memory_bytes=0, bucket_bytes=2000, scan_rows=200, within_bytes=0),
    ],
    ids=["at once", "in memory", "in buckets"],
)
def test_spark_compacts_keys(spark: SparkSession, world: World, limits: CleanLimits) -> None:
    rng = random.Random(5)
    configs = {"delete.retention.ms": "0", "logstore.clean.dead.ratio": "0"}
    topic = KeyedTopic.create(world, "state", configs)
    for _ in range(2):
        topic.write(*random_records(rng, 400, 150))
        topic.move()
    for _ in range(2):
        assert compact(spark, world, clean=limits).errors == []
        topic.check()

    assert len(topic.kept()) == len(topic.state(range(800)))
