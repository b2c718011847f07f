"""Arguments of both compaction commands: log, topics, interval, output."""

import argparse
import re

from logstore.cli.command import positive_number, whole_number
from logstore.cli.storage_arguments import add_url
from logstore.compaction.session import RunOptions

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
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
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each run")


def run_options_of(options: argparse.Namespace) -> RunOptions:
    return RunOptions(
        topics=tuple(options.topics),
        now=options.now,
        keep_deleted=options.keep_deleted,
        horizon_hours=max(HORIZON_HOURS_MIN, options.horizon_hours),
        task_bytes=options.task_mib * 1024 * 1024,
    )


def duration(text: str) -> float:
    """`30s`, `1m`, `2h` in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if found is None or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30s, 1m, 1h")
    return float(found[1]) * _UNITS_S[found[2]]
