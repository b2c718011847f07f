"""Spark jobs of several tasks, planned before their records move and go, and read after it.

The short form of what `make history` does with 2 GB.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.harness.history_series import TOPIC, run
from tests.scenarios.harness.history_spark import planners

pytestmark = pytest.mark.spark

MEGABYTES, ROUNDS, SEED = 3.0, 2, 0


def test_a_job_planned_before_its_records_moved_reads_each_of_them_once(
    spark: SparkSession, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    found = run(
        tmp_path,
        megabytes=MEGABYTES,
        rounds=ROUNDS,
        partitions=4,
        seed=SEED,
        planners=lambda url: planners(spark, url, TOPIC),
    )
    report = "\n".join(found.report())
    tell(f"seed {SEED}\n{report}")

    assert not found.faults, report
    assert found.kept.trimmed_objects > 0, report
    assert found.found_gone > 0, report
