"""`logstore top`: a live screen of a cluster, from the metrics of its brokers."""

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from logstore.cli.command import (
    FAILED,
    OK,
    Command,
    address,
    positive_number,
)
from logstore.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from logstore.cli.decisions.top_figures import ClusterFigures
    from logstore.cli.top.looks import BrokerLooks

DEFAULT_TARGET = "127.0.0.1:9644"
EVERY_S = 2
ROWS = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets",
        type=address,
        nargs="*",
        default=[address(DEFAULT_TARGET)],
        metavar="HOST:PORT",
        help="the --http addresses of brokers; a name that stands for several is all of them "
        f"(default {DEFAULT_TARGET})",
    )
    parser.add_argument(
        "--every",
        type=positive_number,
        default=EVERY_S,
        metavar="SECONDS",
        help=f"seconds between two looks, over which rates are (default {EVERY_S})",
    )
    parser.add_argument(
        "--rows",
        type=positive_number,
        default=ROWS,
        metavar="N",
        help=f"how many requests, topics and groups to show (default {ROWS})",
    )
    parser.add_argument("--once", action="store_true", help="print one text after two looks")
    parser.add_argument("--json", action="store_true", help="print JSON after two looks")


def run(options: argparse.Namespace) -> int:
    from logstore.cli.top.looks import BrokerLooks
    from logstore.ports.clock import SystemClock

    figures = _figures(options, BrokerLooks(options.targets, SystemClock()))
    if options.once or options.json:
        next(figures)
        last = next(figures)
        if options.json:
            print_json(last)
        else:
            _print(last)
        return OK if last.alive else FAILED
    try:
        if not (_has_screen() and _show_live(figures)):
            for one in figures:
                _print(one)
                sys.stdout.flush()
    except KeyboardInterrupt:  # how a live screen is left
        print_line()
    return OK


def _figures(options: argparse.Namespace, looks: "BrokerLooks") -> "Iterator[ClusterFigures]":
    """Of each look, beside the one before."""
    from logstore.cli.decisions.top_figures import cluster_figures
    from logstore.ports.clock import blocking_sleep_s

    before = after = looks.look()
    while True:
        yield cluster_figures(before, after, options.rows)
        blocking_sleep_s(options.every)
        before, after = after, looks.look()


def _print(figures: "ClusterFigures") -> None:
    from logstore.cli.top.text import summary_line, tables_of

    print_line(summary_line(figures))
    for table in tables_of(figures):
        print_table(*table)


def _has_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def _show_live(figures: "Iterator[ClusterFigures]") -> bool:
    """False where rich is not installed. The terminal is as before, however this ends."""
    try:
        from rich.live import Live
    except ModuleNotFoundError:
        return False
    from logstore.cli.top.screen import screen_of

    with Live(screen=True, auto_refresh=False) as live:
        for one in figures:
            live.update(screen_of(one, live.console.height), refresh=True)
    return True


COMMAND = Command("show a cluster live: rates, lag, latency, dollars an hour", configure, run)
