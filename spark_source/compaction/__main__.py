"""`python -m spark_source.compaction`: the same as `logstore compact`, its tasks on Spark.

What a scheduler submits. The session is whatever the environment says: spark-submit, a cluster's
defaults, SPARK_REMOTE for Spark Connect, or local.
"""

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from logstore.cli.command import FAILED, INTERRUPTED, positive_number
from logstore.cli.main import Parser
from logstore.cli.storage_arguments import storage_of
from logstore.clock import SystemClock
from logstore.errors import LogstoreError
from spark_source import configure
from spark_source.compaction.arguments import add_arguments, run_options_of
from spark_source.compaction.compactor import Compactor
from spark_source.compaction.loop import run_in_turn
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
    storage = storage_of(options)
    clock = SystemClock()
    carrier = SparkCarrier(spark, options.url, storage, options.parallelism)
    compactor = Compactor(options.url, storage, carrier, clock=clock)
    try:
        return run_in_turn(
            lambda asked, watch: compactor.run(asked, options.wait, watch),
            run_options_of(options),
            every_s=options.every,
            as_json=options.json,
            clock=clock,
        )
    finally:
        compactor.close()


def _session() -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    return configure(builder.appName("logstore compaction")).getOrCreate()


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"logstore: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
