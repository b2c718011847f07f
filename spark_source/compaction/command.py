"""`logstore compact`: moves records into tables in this process, without Spark."""

import argparse

from logstore.cli.command import Command, positive_number
from logstore.cli.storage_arguments import storage_of


def configure(parser: argparse.ArgumentParser) -> None:
    from spark_source.compaction.arguments import add_arguments

    add_arguments(parser)
    parser.add_argument(
        "--workers",
        type=positive_number,
        metavar="N",
        help="tasks at a time (default: one for each core)",
    )


def run(options: argparse.Namespace) -> int:
    from logstore.clock import SystemClock
    from spark_source.compaction.arguments import run_options_of
    from spark_source.compaction.compactor import Compactor
    from spark_source.compaction.local import LocalCarrier
    from spark_source.compaction.loop import run_in_turn

    storage = storage_of(options)
    clock = SystemClock()
    compactor = Compactor(
        options.url, storage, LocalCarrier(options.url, storage, options.workers), clock=clock
    )
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


COMMAND = Command(
    "move what is committed into each topic's Delta table", configure=configure, run=run
)
