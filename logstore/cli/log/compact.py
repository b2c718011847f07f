"""`logstore compact`: moves records into tables in this process, without Spark."""

import argparse

from logstore.cli.command import Command, positive_number
from logstore.cli.storage_arguments import storage_of


def configure(parser: argparse.ArgumentParser) -> None:
    from logstore.cli.log.compact_arguments import add_arguments

    add_arguments(parser)
    parser.add_argument(
        "--workers",
        type=positive_number,
        metavar="N",
        help="tasks at a time (default: one for each core)",
    )


def run(options: argparse.Namespace) -> int:
    from logstore.cli.log.compact_runs import carry_out
    from logstore.compaction.local import LocalCarrier

    return carry_out(options, LocalCarrier(options.url, storage_of(options), options.workers))


COMMAND = Command(
    "move committed records into each topic's Delta table", configure=configure, run=run
)
