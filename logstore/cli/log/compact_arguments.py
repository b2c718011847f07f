"""Arguments of both compaction commands: log, topics, interval, output."""

import argparse

from logstore.cli.command import positive_number, whole_number
from logstore.cli.storage_arguments import add_url
from logstore.compaction.decisions.clean_rules import CleanLimits
from logstore.compaction.session import RunOptions
from logstore.config.compaction_interval import seconds_of

HORIZON_HOURS_MIN = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        dest="topics",
        metavar="NAME",
        help="only this topic; may be repeated (default: all topics except internal ones)",
    )
    parser.add_argument(
        "--now",
        action="store_true",
        help="move all committed records, regardless of size and age",
    )
    how_often = parser.add_mutually_exclusive_group()
    how_often.add_argument("--once", action="store_true", help="one run (the default)")
    how_often.add_argument(
        "--every", type=duration, metavar="TIME", help="a run every 30s, 1m, 1h, until interrupted"
    )
    parser.add_argument(
        "--wait",
        type=whole_number,
        default=0,
        metavar="SECONDS",
        help="how long to wait for another run to end (default 0: report it and exit with 1)",
    )
    parser.add_argument(
        "--keep-deleted", action="store_true", help="keep the tables of topics that were deleted"
    )
    parser.add_argument(
        "--horizon-hours",
        type=positive_number,
        default=24,
        metavar="N",
        help="delete files that no table version of the last N hours names (default 24)",
    )
    parser.add_argument(
        "--task-mib",
        type=positive_number,
        default=256,
        metavar="N",
        help="bytes that a task reads, in MiB; it needs about twice that memory (default 256)",
    )
    parser.add_argument(
        "--end-with-stdin",
        action="store_true",
        help="end when stdin is closed: for a parent that holds its other end, however it ends",
    )
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each run")


def run_options_of(options: argparse.Namespace) -> RunOptions:
    task_bytes = options.task_mib * 1024 * 1024
    return RunOptions(
        topics=tuple(options.topics),
        now=options.now,
        keep_deleted=options.keep_deleted,
        horizon_hours=max(HORIZON_HOURS_MIN, options.horizon_hours),
        task_bytes=task_bytes,
        clean=CleanLimits.within(task_bytes),
    )


def duration(text: str) -> float:
    """`30s`, `1m`, `2h` in seconds."""
    try:
        return seconds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
