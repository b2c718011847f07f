"""The last record of each key of a topic, as one relation: `latest(spark, url, "customers")`.

What key compaction will leave in the topic's table one day, now, and for topics of any policy. It
reads the whole topic, table and tail, and shuffles one row per key and partition.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from logstore.history.forms.columns import PARTITION_COLUMN
from spark_source.planning.schema import TABLE_COLUMNS
from spark_source.relation import table


def latest(
    spark: SparkSession,
    url: str,
    topic: str,
    *,
    history: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Per partition and key the record with the greatest offset, unless it is a tombstone.

    One moment of the topic, as `table`, with its columns but `raw_batch`: a batch that cannot be
    decoded has keys that are not known, so one in the topic ends the query. Records without a key
    are left out. A key is in one partition, as long as producers partition by it. Raises as
    `table`.
    """
    rows = table(spark, url, topic, history=history, options=options)
    columns = [name for name in TABLE_COLUMNS if name != "raw_batch"]
    is_raw = f.col("raw_batch").isNotNull()
    unknown = f.raise_error(
        f.concat(
            f.lit(
                f"a batch of {topic} cannot be decoded, so the last records of its keys are not "
            ),
            f.lit("known: partition="),
            f.col(PARTITION_COLUMN).cast("string"),
            f.lit(" offset="),
            f.col("offset").cast("string"),
        )
    )
    keyed = rows.where(f.when(is_raw, unknown.cast("boolean")).otherwise(f.col("key").isNotNull()))
    others = [name for name in columns if name not in (PARTITION_COLUMN, "key")]
    newest = keyed.groupBy(PARTITION_COLUMN, "key").agg(
        f.max_by(f.struct(*others), f.col("offset")).alias("newest")
    )
    flat = newest.select(PARTITION_COLUMN, "key", "newest.*").where(f.col("value").isNotNull())
    return flat.select(*columns)
