"""Rows that a job from topic to topic doubles, loses and reorders while its driver, workers and
brokers are killed: `format("logstore")`, and `format("kafka")` into Apache Kafka.

100 kills, of the same seeded schedule (`--scale 0.2`: 20; `--seed`); two brokers of ours, one of
Kafka's, whose process dies and comes back with all that the kernel has of it.
"""

import random
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.contenders import Contender, Contenders, on_servers
from benchmarks.options import Options
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.server import Server
from benchmarks.spark.killed_copies import KilledCopies
from tests.scenarios.harness.sink_series import SinkOutcome, SinkSeries

KILLS = 100


def contenders(options: Options) -> Contenders:
    found: dict[str, Contender] = {"logstore": partial(_ours, options)}
    if options.has_peer:
        found |= on_servers({"kafka": start_kafka}, _theirs, options)
    return {name: one for name, one in found.items() if name.startswith(options.load)}


def _ours(options: Options) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="logstore-bench-") as directory:
        outcome, _ = SinkSeries(Path(directory), random.Random(options.seed)).run(_kills(options))
    return _figures(outcome)


def _theirs(server: Server, options: Options) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="logstore-bench-") as directory:
        copies = KilledCopies(server, Path(directory), random.Random(options.seed))
        outcome = copies.run(_kills(options))
    return _figures(outcome)


def _kills(options: Options) -> int:
    return max(1, int(KILLS * options.scale))


def _figures(outcome: SinkOutcome) -> dict[str, float]:
    return {
        "kills": outcome.kinds.total(),
        "rows": outcome.rows,
        "doubled": outcome.doubled,
        "lost": outcome.lost,
        "out of order": outcome.out_of_order,
    }
