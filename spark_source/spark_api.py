"""The classes of PySpark's Data Source API that Spark 4.2 has and earlier versions may lack.

Where they are missing, others of the same name stand in, so that readers and writers can be defined
at all; such a Spark calls none of them. `check_stream_options` and `check_stream_writer` say what
it cannot do. Batches are read and written alike from Spark 4.0 on.
"""

# mypy: disable-error-code="no-redef,assignment"

import pyspark

from logstore.errors import Invalid, Refused
from spark_source.options import ReadOptions

__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "check_stream_options",
    "check_stream_writer",
]

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before 4.2 Spark asks for the newest offset alone, without start and limit
    HAS_READ_LIMITS = False

    class ReadLimit:
        """A limit that this Spark does not ask for."""

        def __init__(self, *_: int) -> None: ...

    class ReadAllAvailable(ReadLimit): ...

    class ReadMaxBytes(ReadLimit): ...

    class ReadMaxRows(ReadLimit): ...

    class ReadMinRows(ReadLimit): ...

    class SupportsTriggerAvailableNow: ...
else:
    HAS_READ_LIMITS = True

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before 4.1 streams write rows one by one
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter

    HAS_STREAM_ARROW_WRITER = False
else:
    HAS_STREAM_ARROW_WRITER = True


def check_stream_options(options: ReadOptions) -> None:
    """Raises `Invalid` for options of a stream that this Spark would not obey."""
    if HAS_READ_LIMITS:
        return
    limits = {
        "maxOffsetsPerTrigger": options.offsets_max,
        "minOffsetsPerTrigger": options.offsets_min,
        "maxBytesPerTrigger": options.bytes_max,
    }
    if given := [name for name, value in limits.items() if value is not None]:
        raise Invalid(
            f"option {', '.join(given)} needs Spark 4.2 or later: this is {pyspark.__version__}, "
            "whose streams read everything that is there; leave it out, or upgrade Spark"
        )


def check_stream_writer() -> None:
    """Raises `Refused` where streams cannot write Arrow batches."""
    if not HAS_STREAM_ARROW_WRITER:
        raise Refused(
            f"writing a stream needs Spark 4.1 or later: this is {pyspark.__version__}; write by "
            "foreachBatch with options txnAppId and txnVersion, or upgrade Spark"
        )
