"""`logstore cost`: what a log would cost a month on S3 and DynamoDB, line by line."""

import argparse

from logstore.cli.command import OK, Command, positive_number
from logstore.cli.output import dollars_text, print_json, print_table, size_text

HOURS_DEFAULT = 168
MEGABYTE = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--mb-in", type=_rate, required=True, metavar="MB/S", help="written, compressed, a second")
    add("--requests", type=_rate, metavar="N/S", help="produce requests a second (default: 16 KB)")
    add("--brokers", type=positive_number, default=3, metavar="N", help="default 3")
    add("--partitions", type=positive_number, default=12, metavar="N", help="default 12")
    add("--topics", type=positive_number, default=1, metavar="N", help="default 1")
    add("--replicas", type=positive_number, default=1, metavar="N", help="default 1")
    add("--catch-up", type=_rate, default=0.0, metavar="MB/S", help="read behind the tail")
    add("--retention", type=_rate, default=HOURS_DEFAULT, metavar="HOURS", help="default 168")
    add("--table", type=_rate, metavar="HOURS", help="retention of tables; default: no tables")
    add("--flush-ms", type=positive_number, default=100, metavar="MS", help="default 100")
    add("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    from logstore.cli.decisions.cost_model import HOUR_S, Load, cost_lines

    bytes_in_s = options.mb_in * MEGABYTE
    load = Load(
        bytes_in_s=bytes_in_s,
        requests_in_s=bytes_in_s / 16_384 if options.requests is None else options.requests,
        brokers=options.brokers,
        partitions=options.partitions,
        topics=options.topics,
        replicas=options.replicas,
        catch_up_bytes_s=options.catch_up * MEGABYTE,
        retention_s=options.retention * HOUR_S,
        table_retention_s=None if options.table is None else options.table * HOUR_S,
        flush_interval_s=options.flush_ms / 1000,
    )
    lines = cost_lines(load)
    total = sum(line.dollars for line in lines)
    if options.json:
        print_json({"load": load, "lines": lines, "dollars_a_month": total})
        return OK
    rows = [
        (one.what, _amount(one.per_month, one.unit), dollars_text(one.dollars)) for one in lines
    ]
    print_table(
        "a month, at list prices of us-east-1, without machines and traffic out of the region",
        ("what", "amount", "dollars"),
        [*rows, ("total", "", dollars_text(total))],
    )
    return OK


def _amount(amount: float, unit: str) -> str:
    return size_text(round(amount)) if unit == "bytes" else f"{amount / 1e6:,.3f} million {unit}"


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return value


COMMAND = Command("what a log costs a month on S3 and DynamoDB, from its load", configure, run)
