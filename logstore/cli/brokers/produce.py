"""`logstore produce`: lines of standard input become records of a topic."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from logstore.cli.broker_access import access_of, add_command_config
from logstore.cli.command import DEFAULT_BOOTSTRAP, OK, Command, addresses, whole_number
from logstore.cli.output import print_json, print_line

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_BYTES = 256 * 1024
LINE_BYTES_MAX = 1024 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", help="created if it does not exist and brokers allow it")
    parser.add_argument(
        "--bootstrap",
        type=addresses,
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
        help=f"brokers to connect to first (default {DEFAULT_BOOTSTRAP})",
    )
    add_command_config(parser)
    parser.add_argument(
        "--key-separator", metavar="TEXT", help="lines are key TEXT value, split at the first TEXT"
    )
    parser.add_argument(
        "--partition", type=whole_number, metavar="N", help="default: chosen by the key"
    )
    parser.add_argument("--compression", choices=CODECS, default="none")
    parser.add_argument(
        "--json",
        action="store_true",
        help='lines are JSON: {"key": …, "value": …, "headers": {…}, "partition": …}; the '
        "answer is JSON too",
    )


def run(options: argparse.Namespace) -> int:
    from logstore.cli.brokers.cluster_calls import cluster_of
    from logstore.cli.brokers.produce_calls import Sender
    from logstore.cli.decisions.record_lines import parse_json, parse_plain
    from logstore.ports.clock import SystemClock

    clock = SystemClock()
    separator = None if options.key_separator is None else options.key_separator.encode()
    parse = parse_json if options.json else partial(parse_plain, separator=separator)
    with cluster_of(options.bootstrap, creates=True, access=access_of(options)) as cluster:
        sender = Sender(cluster, options.topic, compression=options.compression)
        for lines in read_lines(partial(os.read, sys.stdin.fileno(), READ_BYTES)):
            records = [parse(line) for line in lines]
            if options.partition is not None:
                records = [replace(record, partition=options.partition) for record in records]
            sender.send(records, clock.now_ms())
    if options.json:
        print_json({"topic": options.topic, "records": sender.record_count})
    else:
        print_line(f"{sender.record_count} records written to {options.topic}", to=sys.stderr)
    return OK


def read_lines(read: Callable[[], bytes]) -> Iterator[list[bytes]]:
    """Whole lines as they come: all that one read brings leave together, and none waits for more.

    Raises `Invalid` for a line that never ends.
    """
    from logstore.errors import Invalid

    rest = b""
    while data := read():
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise Invalid(f"a line is longer than {LINE_BYTES_MAX} bytes")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


COMMAND = Command("write lines to a topic", configure, run)
