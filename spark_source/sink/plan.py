"""The plan of a write, made by the driver before any row is read: options, columns, topics."""

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pyspark.sql.types import StructType

from logstore.errors import Invalid
from logstore.staging.topics import SinkTopic
from spark_source.sink.columns import check_written_columns
from spark_source.sink.log import open_sink
from spark_source.sink.options import Delivery, WriteOptions, parse_write_options

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """All that a task gets to know."""

    options: WriteOptions
    columns: Mapping[str, int]
    topics: Mapping[str, SinkTopic]
    cluster_id: bytes
    write_id: str
    """Of a batch write; empty for a stream, whose batches have ids of their own."""


def plan_write(
    options: Mapping[str, str], schema: StructType, *, is_stream: bool, overwrite: bool
) -> WritePlan:
    """Raises `Invalid` for options and columns that cannot be, before any row is read."""
    parsed = parse_write_options(options, is_stream=is_stream)
    if overwrite and not is_stream:
        raise Invalid('a log has no overwrite, records are appended: write with mode("append")')
    columns = check_written_columns(
        ((field.name, field.dataType.simpleString()) for field in schema.fields),
        has_topic=parsed.topic is not None,
    )
    if parsed.without_effect:
        warn_once(f"options without effect: {', '.join(parsed.without_effect)}")
    if columns.left_out:
        warn_once(
            f"columns of a topic's rows that are not written, since a row gets its own there: "
            f"{', '.join(columns.left_out)}; drop them to say so"
        )
    log = open_sink(parsed.url, parsed.storage, parsed.bootstrap)
    if parsed.delivery is Delivery.EXACTLY_ONCE:
        log.check_level()
    return WritePlan(
        options=parsed,
        columns=columns.places,
        topics=log.topics(parsed.topic),
        cluster_id=log.cluster_id,
        write_id="" if is_stream else secrets.token_hex(16),
    )


@cache
def warn_once(text: str) -> None:
    """Warn, the first time in a process: each batch of a stream is planned again."""
    logger.warning(text)
