"""Runs cases: `python -m benchmarks [CASE ...] [--rounds N] [--no-peer] [--json FILE]`.

Each round starts a fresh server of each kind in turn, so that what the machine does meanwhile hits
both; a figure is the median over the rounds. CPU-second figures are the ones to compare. A case
with TWINS needs no server: it compares two ways to do the same in this process.
"""

import argparse
import importlib
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Start, running

CASES = ("decode", "start", "tiny_requests", "acknowledge", "fetch", "produce")
STARTS: Mapping[str, Start] = {"logstore": start_logstore, "kafka": start_kafka}
Figures = dict[str, dict[str, list[float]]]
"""By figure, by server: one value a round."""


def main() -> int:
    arguments = _parser().parse_args()
    peers = ["logstore"] if arguments.no_peer else list(STARTS)
    results: dict[str, Figures] = {}
    for name in arguments.cases or CASES:
        case = importlib.import_module(f"benchmarks.cases.{name}")
        if hasattr(case, "TWINS"):
            results[name] = _run_twins(case, arguments.rounds)
            _show(name, results[name], case.TWINS)
        else:
            results[name] = _run_case(case, peers, arguments.rounds)
            _show(name, results[name], peers)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0


def _run_twins(case: ModuleType, rounds: int) -> Figures:
    figures: Figures = {}
    for _ in range(rounds):
        for twin in case.TWINS:
            for figure, value in case.run(twin).items():
                figures.setdefault(figure, {}).setdefault(twin, []).append(value)
    return figures


def _run_case(case: ModuleType, peers: Sequence[str], rounds: int) -> Figures:
    name = case.__name__.rpartition(".")[2]
    figures: Figures = {}
    for number in range(rounds):
        for peer in peers:
            if peer not in case.PEERS:
                continue
            print(f"{name}: round {number + 1} of {rounds}, {peer}", file=sys.stderr)
            with running(STARTS[peer]) as server:
                for figure, value in case.run(server).items():
                    figures.setdefault(figure, {}).setdefault(peer, []).append(value)
    return figures


def _show(name: str, figures: Figures, peers: Sequence[str]) -> None:
    print(f"\n{name} (load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores)")
    heading = "".join(f"{peer:>14}" for peer in peers)
    print(f"{'median':40}{heading}{'ratio':>10}")
    for figure, by_peer in figures.items():
        medians = [statistics.median(by_peer[peer]) for peer in peers if peer in by_peer]
        ratio = f"{medians[0] / medians[1]:10.2f}" if len(medians) == 2 and medians[1] else ""
        print(f"{figure:40}" + "".join(f"{value:14,.1f}" for value in medians) + ratio)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="which, all by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="without Apache Kafka")
    parser.add_argument("--json", help="write every value to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
