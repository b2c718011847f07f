"""Spark's ways to read a topic with history: the source, the union view, Delta's own reader."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_source import table
from tests.scenarios.harness.digests import Digest
from tests.scenarios.harness.history_readers import by_spark, of_sums, summed
from tests.scenarios.harness.planned_reads import TASKS
from tools.demo.places import IVY
from tools.demo.spark import spark_session

Readers = Mapping[str, Callable[[], Digest]]


@contextmanager
def spark() -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as folder, spark_session(IVY, Path(folder, "spark")) as one:
        yield one


def live_readers(session: SparkSession, url: str, topic: str) -> Readers:
    return {
        "the Spark source": lambda: by_spark(_source(session, url, topic)),
        "the union view": lambda: by_spark(table(session, url, topic)),
    }


def table_readers(session: SparkSession, url: str, topic: str) -> Readers:
    (folder,) = Path(url, "tables").iterdir()
    return {"Delta in Spark": lambda: by_spark(session.read.format("delta").load(str(folder)))}


def planners(
    session: SparkSession, url: str, topic: str
) -> Mapping[str, Callable[[], Callable[[], Digest]]]:
    return {"a Spark job": lambda: _planned(session, url, topic)}


def _planned(session: SparkSession, url: str, topic: str) -> Callable[[], Digest]:
    """A DataFrame that is planned now; Spark keeps the plan, and its tasks, for each later use."""
    sums = summed(_source(session, url, topic, minPartitions=str(TASKS)))
    assert sums.rdd.getNumPartitions() > 1
    return lambda: of_sums(sums)


def _source(session: SparkSession, url: str, topic: str, **more: str) -> DataFrame:
    options = {"path": url, "subscribe": topic, "includeHeaders": "true", **more}
    rows = session.read.format("logstore").options(**options).load()
    return rows.withColumn("timestamp_ms", sf.unix_millis("timestamp"))
