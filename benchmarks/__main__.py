"""Runs cases: `python -m benchmarks [CASE ...]`, see --help.

A case names its contenders, ours and Apache Kafka for most. Each round runs them in turn, forwards
and backwards, each on fresh servers, so that other work of the machine hits all; a figure is
the median over the rounds. CPU-second figures are the ones to compare. A case may come in parts:
all rounds of one, then the next.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import get_args

from benchmarks.contenders import Contenders, Parts
from benchmarks.figures import Figures, order, table
from benchmarks.options import SEGMENT_BYTES, Options, StoreKind
from benchmarks.profile_report import report

CASES = (
    *("decode", "start", "tiny_requests", "acls", "acknowledge", "fetch", "produce"),
    *("catch_up", "catch_up_crowd"),
    *(
        "cluster_produce",
        "cluster_fetch",
        "followers",
        "registry",
        "takeover",
        "silence",
        "tls",
        "checkpoint",
        "memory",
        "metadata",
        "idle_fetch",
        "holds",
        "hostile",
        "hostile_memory",
        "compact",
        "clean",
        "clean_runs",
        "clean_day",
        "clean_keys",
        "clean_beside",
    ),
    *("spark_plan", "history_fetch", "freshness"),
    *(
        "spark_read",
        "spark_latency",
        "spark_idle",
        "spark_real_time",
        "spark_write",
        "spark_history",
        "adopt",
        "spark_kills",
    ),
)

ON_BUCKET = (
    "acknowledge",
    "spark_real_time",
    "fetch",
    "produce",
    "tiny_requests",
    "catch_up",
    "catch_up_crowd",
    "compact",
    "silence",
    "spark_read",
)
"""They take `--store s3`."""
SHARED = ("catch_up", "compact", "spark_read")
"""They take `--share` and `--segment-bytes`."""


def main(words: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments = parser.parse_args(words)
    _check(parser, arguments)
    if arguments.profile:
        return _profile(arguments)
    options, results = _options(arguments), {}
    for name in arguments.cases or CASES:
        results[name] = figures = _run_case(name, options, arguments.rounds)
        _show(name, figures)
        if arguments.charts:
            from benchmarks.chart import draw  # takes a second, and an extra

            draw(name, figures, Path(arguments.charts) / f"{name}.png")
        if arguments.json:  # after each case: the next may take an hour, or fail
            _write(Path(arguments.json), arguments, results)
    return 0


def _run_case(name: str, options: Options, rounds: int) -> Figures:
    figures = Figures([])
    with closing(parts_of(name, options)) as parts:
        for contenders in parts:
            figures.contenders = list(contenders)
            _run_rounds(name, contenders, figures, rounds)
    return figures


def parts_of(name: str, options: Options) -> Parts:
    """Of a case by its name; most have one part."""
    case = importlib.import_module(f"benchmarks.cases.{name}")
    if hasattr(case, "parts"):
        yield from case.parts(options)
    else:
        yield case.contenders(options)


def _run_rounds(name: str, contenders: Contenders, figures: Figures, rounds: int) -> None:
    for number in range(rounds):
        for contender in order(figures.contenders, number):
            print(f"{name}: round {number + 1} of {rounds}, {contender}", file=sys.stderr)
            found = contenders[contender]()
            figures.add(contender, found, os.getloadavg()[0])


def _show(name: str, figures: Figures) -> None:
    loads = figures.load_averages
    print(f"\n{name} (load average {min(loads)} to {max(loads)}, {os.cpu_count()} cores)")
    print("\n".join(table(figures)), flush=True)


def _profile(arguments: argparse.Namespace) -> int:
    """One round of ours under a profiler. Its other figures are worth nothing."""
    for name in arguments.cases or ("produce",):
        with tempfile.TemporaryDirectory(prefix="logstore-profiles-") as folder:
            options = _options(arguments, profiles=Path(folder))
            _run_case(name, options, 1)
            print(f"\n{name}: largest costs of each broker (load {options.load or 'all'})")
            print("\n".join(report(Path(folder))), flush=True)
    return 0


def _options(arguments: argparse.Namespace, profiles: Path | None = None) -> Options:
    return Options(
        scale=arguments.scale,
        load=arguments.load,
        partitions=tuple(arguments.partitions),
        has_peer=not (arguments.no_peer or arguments.profile),
        has_dynamodb=arguments.dynamodb,
        is_full=arguments.full,
        profiles=profiles,
        store=arguments.store,
        share=arguments.share / 100,
        segment_bytes=arguments.segment_bytes,
        seed=arguments.seed,
        spreads=tuple(arguments.spread),
    )


def _check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Ends the process where an option would silently change nothing."""
    cases = set(arguments.cases or CASES)
    if arguments.store != "directory" and (others := cases - set(ON_BUCKET)):
        parser.error(f"these cases take no --store: {', '.join(sorted(others))}")
    if arguments.share != 100 and (others := cases - set(SHARED)):
        parser.error(f"these cases take no --share: {', '.join(sorted(others))}")
    if not 0 < arguments.share <= 100:
        parser.error(f"--share is a percentage above 0: {arguments.share}")


def _write(path: Path, arguments: argparse.Namespace, results: dict[str, Figures]) -> None:
    found = {
        "cores": os.cpu_count(),
        "options": vars(arguments),
        "cases": {
            name: {"load_averages": figures.load_averages, "figures": figures.values}
            for name, figures in results.items()
        },
    }
    path.write_text(json.dumps(found, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="which, all by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of loads and times: 0.1 to try")
    parser.add_argument("--load", default="", help="only loads whose name begins so: 100B")
    parser.add_argument(
        "--partitions",
        type=int,
        nargs="+",
        default=[10, 1000],
        help="for registry, compact and spark_idle; takeover takes the largest",
    )
    _add_places(parser)
    parser.add_argument("--full", action="store_true", help="spark_read: every cell, for hours")
    parser.add_argument("--no-peer", action="store_true", help="without Apache Kafka")
    parser.add_argument("--dynamodb", action="store_true", help="takeover: DynamoDB Local too")
    parser.add_argument(
        "--profile",
        action="store_true",
        help="profile our brokers instead: produce by default; --load 100B for small records",
    )
    parser.add_argument("--json", help="write every value to this file")
    parser.add_argument(
        "--charts", help="draw each case in this folder: needs the dependency group demo"
    )
    return parser


def _add_places(parser: argparse.ArgumentParser) -> None:
    """Where logs lie, for the cases that read or write a store: `ON_BUCKET`."""
    parser.add_argument(
        "--store",
        choices=get_args(StoreKind),
        default="directory",
        help="s3: versitygw and DynamoDB Local behind proxies with the latency of S3, for: "
        + ", ".join(ON_BUCKET),
    )
    parser.add_argument(
        "--share",
        type=float,
        default=100.0,
        help="percent of the bytes of its segments that the topic has, for: " + ", ".join(SHARED),
    )
    parser.add_argument(
        "--segment-bytes",
        type=int,
        default=SEGMENT_BYTES,
        help="size of the segments of a log that is filled before it is read (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the latency of s3")
    parser.add_argument(
        "--spread",
        action="append",
        default=[],
        metavar="METHOD=P50,P99,P50,P99",
        help="latency of s3 in ms: of a tiny request, then of one of 4 MiB; may be repeated",
    )


if __name__ == "__main__":
    sys.exit(main())
