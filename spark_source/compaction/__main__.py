"""`python -m spark_source.compaction`: the same as `logstore compact`, its tasks on Spark.

What a scheduler submits. The session is whatever the environment says: spark-submit, a cluster's
defaults, SPARK_REMOTE for Spark Connect, or local.
"""

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from logstore.cli.command import FAILED, INTERRUPTED, positive_number
from logstore.cli.log.compact_arguments import add_arguments
from logstore.cli.log.compact_runs import carry_out
from logstore.cli.main import Parser
from logstore.cli.storage_arguments import storage_of
from logstore.errors import LogstoreError
from spark_source import configure
from spark_source.compaction.spark import SparkCarrier


def main(words: Sequence[str] | None = None) -> int:
    options = parse(words)
    try:
        spark = _session()
        try:
            return carry_out_runs(options, spark)
        finally:
            spark.stop()
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except LogstoreError as error:
        return _say(" ".join(str(error).split()), FAILED)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = Parser(prog="python -m spark_source.compaction", description=__doc__)
    add_arguments(parser)
    parser.add_argument(
        "--parallelism",
        type=positive_number,
        metavar="N",
        help="tasks that run at once (default: the session's cores)",
    )
    return parser.parse_args(words)


def carry_out_runs(options: argparse.Namespace, spark: SparkSession) -> int:
    """The exit code."""
    carrier = SparkCarrier(spark, options.url, storage_of(options), options.parallelism)
    return carry_out(options, carrier)


def _session() -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    return configure(builder.appName("logstore compaction")).getOrCreate()


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"logstore: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
