"""A topic as one relation, history and tail: `table(spark, url, "orders")`.

History comes from the topic's Delta table at one version where the session has Delta, so that
filters, columns and partitions are pruned by it; the rest from the log. Without Delta in the
session the source reads both. Either way it is one moment of the topic, fixed when the relation is
made.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from logstore.errors import Invalid
from logstore.history.forms.names import table_key
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.stores.location import parse_location
from spark_source.options import PUSH_FILTERS
from spark_source.planning.choices import TopicChoice
from spark_source.planning.pinning import PinnedSnapshot, pin_snapshot
from spark_source.planning.schema import TABLE_COLUMNS, ddl_of
from spark_source.settings import pushes_filters
from spark_source.source import FORMAT

logger = logging.getLogger(__name__)

DELTA, SOURCE = "delta", "logstore"
EXTENSIONS = "spark.sql.extensions"
DELTA_EXTENSION = "DeltaSparkSessionExtension"


def table(
    spark: SparkSession,
    url: str,
    topic: str,
    *,
    history: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Every record of `topic` that is committed now, once: the columns of its Delta table.

    The DataFrame stays at this moment however often it is used; make another for a later one.
    `history` says who reads what has moved to the table: "delta" (delta-spark; files are pruned by
    filters) or "logstore" (the source); None takes Delta where the session has it and can read the
    table. `options` are `storage.*` settings. Raises `Invalid`, `Refused` and what Spark raises.
    """
    if history not in (None, DELTA, SOURCE):
        raise Invalid(f"history is read by {DELTA} or {SOURCE}, not by: {history}")
    storage = dict(options or {})
    where = parse_location(url).url
    moment = pin_snapshot(LogMetadata(where, TopicChoice("subscribe", (topic,)), storage), topic)
    relation = _Relation(spark, where, storage, moment)
    if not moment.has_history or history == SOURCE:
        return relation.by_source()
    if history == DELTA:
        return relation.by_delta()
    return relation.by_either() if _has_delta(spark) else relation.by_source()


def create_view(spark: SparkSession, url: str, topic: str, name: str, **more: Any) -> DataFrame:
    """The temporary view `name` over `table(...)`, which it gives back; replaces one there was.

    A view stays at the moment it was made. Call this again for a later one.
    """
    rows = table(spark, url, topic, **more)
    rows.createOrReplaceTempView(name)
    return rows


class _Relation:
    def __init__(
        self, spark: SparkSession, url: str, storage: Mapping[str, str], moment: PinnedSnapshot
    ) -> None:
        self._spark = spark
        self._url = url
        self._storage = storage
        self._moment = moment

    def by_source(self) -> DataFrame:
        return self._of_log(self._moment.starts)

    def by_delta(self) -> DataFrame:
        rows = self._of_table()
        return rows.unionAll(self._of_log(self._moment.bounds)) if self._moment.has_tail else rows

    def by_either(self) -> DataFrame:
        try:
            return self.by_delta()
        except PySparkException as error:
            reason = str(error).strip().partition("\n")[0]
            logger.warning("Delta cannot read the table here, the source does it: %s", reason)
            return self.by_source()

    def _of_log(self, starts: Mapping[int, int]) -> DataFrame:
        """Up to the ends; of these partitions alone, since others may come later."""
        moment = self._moment
        given = {
            **self._storage,
            "path": self._url,
            "topicId": moment.topic_id.hex(),
            "assign": json.dumps({moment.topic: sorted(moment.ends)}),
            "startingOffsets": self._json(starts),
            "endingOffsets": self._json(moment.ends),
        }
        if pushes_filters(self._spark):
            given[PUSH_FILTERS] = "true"
        reader = self._spark.read.schema(ddl_of(TABLE_COLUMNS)).format(FORMAT)
        return reader.options(**given).load()

    def _of_table(self) -> DataFrame:
        moment = self._moment
        reader = self._spark.read.format(DELTA).option("versionAsOf", str(moment.version))
        rows = reader.load(delta_path(self._url, moment.topic_id)).select(*TABLE_COLUMNS)
        return rows.where(_is_readable(moment.starts)) if any(moment.starts.values()) else rows

    def _json(self, offsets: Mapping[int, int]) -> str:
        named = {str(number): offset for number, offset in sorted(offsets.items())}
        return json.dumps({self._moment.topic: named})


def delta_path(url: str, topic_id: bytes) -> str:
    """Of a topic's table, as Hadoop spells it."""
    location = f"{parse_location(url).url}/{table_key(topic_id)}"
    return f"s3a://{location.removeprefix('s3://')}" if location.startswith("s3://") else location


def _has_delta(spark: SparkSession) -> bool:
    return DELTA_EXTENSION in str(spark.conf.get(EXTENSIONS, ""))


def _is_readable(starts: Mapping[int, int]) -> Column:
    """From log start on: what retention or DeleteRecords took may be in the table for a while."""
    by_partition = ",".join(f"{starts.get(number, 0)}L" for number in range(max(starts) + 1))
    return f.expr(f"offset >= element_at(array({by_partition}), partition + 1)")
