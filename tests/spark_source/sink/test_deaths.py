"""A driver that dies at each point of a commit, and is started again: each row once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.harness.process import Process
from tests.spark_source.sink.log import ServedLog, served_log
from tests.spark_source.sink.mortal import BATCH, GROUP, POINT, POINTS
from tests.spark_source.sink.test_spark import numbered, run_stream, values_of, write

pytestmark = pytest.mark.spark

ROWS, BATCH_ROWS, MORTAL_BATCH = 900, 300, 1
DRIVER_S = 300.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    with served_log(tmp_path_factory.mktemp("deaths"), brokers=2) as served:
        yield served


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_dies_in_a_commit_leaves_each_row_once(
    spark: SparkSession, log: ServedLog, tmp_path: Path, point: str
) -> None:
    source, target = f"from-{point}", f"to-{point}"
    log.create(source, 2)
    log.create(target, 4)
    write(numbered(spark, ROWS), log, source)
    group = tmp_path / "group"
    arguments = [log.url, source, target, str(tmp_path / "c"), str(BATCH_ROWS), "mortal"]
    options = [f"{POINT}={point}", f"{BATCH}={MORTAL_BATCH}", f"{GROUP}={group}"]
    with Process(["tests.spark_source.sink.driver", *arguments, *options]) as driver:
        group.write_text(str(driver.pid))
        assert driver.wait(deadline_s=DRIVER_S) < 0, driver.lines[-5:]
    assert not group.exists(), "it did not die where it was to"
    before = log.values(target)

    run_stream(spark, log, source, target, tmp_path / "c", maxOffsetsPerTrigger=str(BATCH_ROWS))

    assert log.values(target) == values_of(ROWS)
    assert len(before) >= BATCH_ROWS - 2
    if point == "first-adopted":
        assert BATCH_ROWS < len(before) < 2 * BATCH_ROWS - 2, "both leaders had adopted, or none"
    if point == "all-adopted":
        assert len(before) >= 2 * BATCH_ROWS - 4
