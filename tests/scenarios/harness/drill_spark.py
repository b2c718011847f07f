"""Spark's ways to read a log after a disaster drill: the source, and the union view."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_source import table
from tests.scenarios.harness.drill_life import Acknowledged, Place
from tests.scenarios.harness.history_spark import spark

Values = dict[Place, dict[int, bytes]]


@contextmanager
def spark_readers() -> Iterator[Mapping[str, Callable[[Path, Acknowledged], Values]]]:
    with spark() as session:
        yield {
            "the Spark source": lambda log, wanted: _read(
                wanted, lambda t: _source(session, log, t)
            ),
            "the union view": lambda log, wanted: _read(
                wanted, lambda topic: table(session, str(log), topic)
            ),
        }


def _read(wanted: Acknowledged, rows_of: Callable[[str], DataFrame]) -> Values:
    found: Values = {}
    for topic in sorted({topic for topic, _ in wanted.values}):
        for number, offset, value in (
            rows_of(topic).select("partition", "offset", "value").collect()
        ):
            values = found.setdefault((topic, number), {})
            assert offset not in values, f"twice: {topic} {number} offset={offset}"
            values[offset] = bytes(value)
    return found


def _source(session: SparkSession, log: Path, topic: str) -> DataFrame:
    options = {"path": str(log), "subscribe": topic}
    return session.read.format("logstore").options(**options).load()
