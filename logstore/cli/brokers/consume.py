"""`logstore consume`: records of a topic become lines of standard output."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from logstore.cli.broker_access import access_of, add_command_config
from logstore.cli.command import (
    DEFAULT_BOOTSTRAP,
    OK,
    Command,
    addresses,
    positive_number,
    whole_number,
)

FROM_METAVAR = "earliest|latest|OFFSET|TIME"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic")
    parser.add_argument(
        "--bootstrap",
        type=addresses,
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
        help=f"brokers to connect to first (default {DEFAULT_BOOTSTRAP})",
    )
    add_command_config(parser)
    parser.add_argument(
        "--from", dest="start", default="earliest", metavar=FROM_METAVAR, help="(default earliest)"
    )
    parser.add_argument(
        "--group",
        help="start at this group's committed offsets, and commit; takes no part in its rebalances",
    )
    parser.add_argument(
        "--partition", type=whole_number, action="append", metavar="N", help="default: all"
    )
    parser.add_argument("--max", type=positive_number, metavar="N", help="stop after N records")
    parser.add_argument(
        "--follow", action="store_true", help="wait for more records instead of stopping at the end"
    )
    parser.add_argument("--key-separator", metavar="TEXT", help="print key TEXT value")
    parser.add_argument("--json", action="store_true", help="print a JSON object per line")


def run(options: argparse.Namespace) -> int:
    from logstore.cli.brokers.cluster_calls import cluster_of
    from logstore.cli.brokers.consume_calls import Consumer
    from logstore.cli.decisions.offset_reset import parse_target

    write = _writer(options)
    with cluster_of(options.bootstrap, access=access_of(options)) as cluster:
        consumer = Consumer(
            cluster,
            options.topic,
            start=parse_target(options.start),
            partitions=options.partition,
            group=options.group,
        )
        with _terminated_in_order():
            try:
                _read(consumer, write, options.max, is_endless=options.follow)
            finally:
                sys.stdout.flush()
                consumer.commit()
    return OK


class _Terminated(BaseException):
    """SIGTERM came: offsets of printed records are committed before the process ends."""


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """SIGTERM raises `_Terminated` inside; afterwards the process ends as the signal has it end."""

    def on_signal(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
        raise _Terminated

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def _read(
    consumer: Any, write: Callable[[Any], None], count_max: int | None, *, is_endless: bool
) -> None:
    count = 0
    while is_endless or not consumer.is_at_end:
        for record in consumer.poll():
            write(record)
            consumer.done(record)
            count += 1
            if count == count_max:
                return
        sys.stdout.flush()


def _writer(options: argparse.Namespace) -> Callable[[Any], None]:
    from logstore.cli.decisions.record_lines import format_json, format_plain

    out = sys.stdout.buffer
    separator = None if options.key_separator is None else options.key_separator.encode()

    def write_plain(record: Any) -> None:
        out.write(format_plain(record.key, record.value, separator) + b"\n")

    def write_json(record: Any) -> None:
        out.write(format_json(options.topic, *record) + b"\n")

    return write_json if options.json else write_plain


COMMAND = Command("print the records of a topic", configure, run)
