"""A DataFrame into a topic in one call: `write_topic(df, url, "orders")`."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from spark_source.source import FORMAT


def write_topic(
    rows: DataFrame,
    url: str,
    topic: str | None = None,
    *,
    checkpoint: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    **more_options: Any,
) -> StreamingQuery | None:
    """Append a DataFrame to a topic; a streaming one starts a query, which is returned.

    `topic` None: the column of that name says it. A stream needs `checkpoint`, and takes `trigger`
    as Spark does:

        write_topic(rows, "s3://bucket/log", "orders", checkpoint="s3://…", trigger={"once": True})

    Options are those of the sink, by keyword or, where the name has a dot, in `options`. Raises
    what Spark raises.
    """
    given = {"path": url, "topic": topic, **(options or {}), **more_options}
    texts = {name: _option_text(value) for name, value in given.items() if value is not None}
    if not rows.isStreaming:
        rows.write.format(FORMAT).mode("append").options(**texts).save()
        return None
    writer = rows.writeStream.format(FORMAT).options(**texts)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
