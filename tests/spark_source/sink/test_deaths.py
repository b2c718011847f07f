"""A driver that dies at each point of a commit, and is started again: each row once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.harness.process import Process
from tests.spark_source.sink.log import ServedLog, served_log
from tests.spark_source.sink.mortal import BATCH, GROUP, POINT, POINTS
from tests.spark_source.sink.test_spark import add_file, run_stream, values_of

pytestmark = pytest.mark.spark

BATCHES, BATCH_ROWS, MORTAL_BATCH = 3, 300, 1
DRIVER_S = 300.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    with served_log(tmp_path_factory.mktemp("deaths"), brokers=2) as served:
        yield served


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_dies_in_a_commit_leaves_each_row_once(
    spark: SparkSession, log: ServedLog, tmp_path: Path, point: str
) -> None:
    target, rows = f"to-{point}", tmp_path / "rows"
    log.create(target, 4)
    for number in range(BATCHES):
        add_file(spark, rows, BATCH_ROWS, number * BATCH_ROWS)
    group = tmp_path / "group"
    arguments = [log.url, str(rows), target, str(tmp_path / "c"), str(BATCH_ROWS), "mortal"]
    options = [f"{POINT}={point}", f"{BATCH}={MORTAL_BATCH}", f"{GROUP}={group}"]
    with Process(["tests.spark_source.sink.driver", *arguments, *options]) as driver:
        group.write_text(str(driver.pid))
        assert driver.wait(deadline_s=DRIVER_S) < 0, driver.lines[-5:]
    assert not group.exists(), "it did not die where it was to"
    before = len(log.values(target))

    run_stream(spark, log, rows, target, tmp_path / "c")

    assert log.values(target) == values_of(BATCHES * BATCH_ROWS)
    if point in ("before-manifest", "after-manifest"):
        assert before == BATCH_ROWS
    elif point == "first-adopted":
        assert BATCH_ROWS < before < 2 * BATCH_ROWS, "both leaders had adopted, or none"
    else:
        assert before == 2 * BATCH_ROWS
