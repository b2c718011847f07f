"""A topic as a DataFrame in one call: `read_topic(spark, url, "orders")`."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession

from spark_source.options import PARALLELISM, PUSH_FILTERS
from spark_source.planning.schema import check_columns, ddl_of, types_of
from spark_source.settings import advice, parallelism_of, pushes_filters
from spark_source.source import FORMAT

logger = logging.getLogger(__name__)

_advised: WeakSet[SparkSession] = WeakSet()


def read_topic(
    spark: SparkSession,
    url: str,
    topic: str | Sequence[str],
    *,
    stream: bool = False,
    columns: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    **more_options: Any,
) -> DataFrame:
    """One topic or several; a batch of everything, or a stream of what comes.

    `columns` are read and no others, in this order. Options are those of `format("logstore")`, by
    keyword or, where the name has a dot, in `options`:

        read_topic(spark, "s3://bucket/log", "orders", startingOffsets="earliest", stream=True)

    Tasks are planned for the executors that the session has now: option `parallelism`. A batch
    reads what its filters may want where the session hands them on: option `pushFilters`.
    Once per session it says which settings would make it faster. Raises what Spark raises.
    """
    _advise(spark)
    names = topic if isinstance(topic, str) else ",".join(topic)
    given = {"path": url, "subscribe": names, **(options or {}), **more_options}
    if cores := parallelism_of(spark):
        given.setdefault(PARALLELISM, cores)
    if not stream and pushes_filters(spark):
        given.setdefault(PUSH_FILTERS, True)
    reader: Any = spark.readStream if stream else spark.read
    reader = reader.format(FORMAT).options(**{name: _text(value) for name, value in given.items()})
    if columns is not None:
        reader = reader.schema(ddl_of(check_columns(types_of(columns))))
    rows: DataFrame = reader.load()
    return rows


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _advise(spark: SparkSession) -> None:
    if spark not in _advised:
        _advised.add(spark)
        for line in advice(spark):
            logger.warning("%s", line)
