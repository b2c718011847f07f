"""Every option of the sink, and its meaning.

`options.py` takes these names and no others; `docs/spark-options.md` is made of this list.
"""

from dataclasses import dataclass

from spark_source.option_texts import BOOTSTRAP

BOTH, STREAM, BATCH = "both", "stream", "batch"
DEFAULT_CODEC = "lz4"
DEFAULT_ADOPT_TIMEOUT = "2m"


@dataclass(frozen=True, slots=True)
class SinkOption:
    """`name` ends in `*` where it stands for all that begin so; `kafka`: beside Kafka's sink."""

    name: str
    queries: str
    default: str
    meaning: str
    kafka: str = "not there"

    @property
    def is_prefix(self) -> bool:
        return self.name.endswith("*")


SINK_OPTIONS = (
    SinkOption(
        "path",
        BOTH,
        "required",
        "the URL of the log, as for reading; `url` is the same",
    ),
    SinkOption("url", BOTH, "-", "the same as `path`"),
    SinkOption("storage.*", BOTH, "-", "how a bucket is reached, as for reading"),
    SinkOption("topic", BOTH, "the column", "topic of all rows; it wins over the column", "same"),
    SinkOption(
        "delivery",
        BOTH,
        "`exactly-once`",
        "or `at-least-once`: tasks send their rows to brokers as they come",
        "not there: its sink is at least once",
    ),
    SinkOption(
        "compression",
        BOTH,
        f"`{DEFAULT_CODEC}`",
        "`none`, `gzip`, `snappy`, `lz4`, `zstd`; `kafka.compression.type` is the same",
        "`kafka.compression.type`, by default `none`",
    ),
    SinkOption(
        "sinkId",
        STREAM,
        "the query's id",
        "names the sink, together with the query's id: with a new one the same query is another "
        "sink, which writes again the batch that it stands at. A new checkpoint is another sink "
        "in any case",
    ),
    SinkOption(
        "txnAppId",
        BATCH,
        "none",
        "names a write that may be repeated, as with Delta; for `foreachBatch` too. Goes with "
        "`txnVersion`",
    ),
    SinkOption(
        "txnVersion",
        BATCH,
        "none",
        "a version is written once, whatever rows it has; versions below the last one are left "
        "out too",
    ),
    SinkOption(
        "adopt.timeout",
        BOTH,
        f"`{DEFAULT_ADOPT_TIMEOUT}`",
        "how long a batch waits for leaders that do no more of it before the query fails. Started "
        "again, it goes on with the batch",
    ),
    SinkOption(
        BOOTSTRAP,
        BOTH,
        "brokers of the registry",
        "where brokers are found",
        "required there",
    ),
    SinkOption(
        "includeHeaders",
        BOTH,
        "-",
        "accepted, without effect: `headers` are written if the column is there",
        "-",
    ),
    SinkOption(
        "kafka.*",
        BOTH,
        "-",
        "accepted, without effect, logged once: there is no producer of Kafka",
        "settings of its producer",
    ),
)
