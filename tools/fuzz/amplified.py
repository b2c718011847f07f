"""Attacks three brokers with few bytes: `python -m tools.fuzz.amplified --rounds 2 [--seed 0]`.

In each round every act of `tools.fuzz.amplifiers` has its turn, each at the next broker, while a
healthy client beside each broker produces. Shown by act: the longest hold of the event loop, by CPU
time, and the longest wait of any healthy client; at the end memory, and how often a broker was
fenced. Exit code 1: a broker was fenced, ended, or reported a fault of its own.
"""

import argparse
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.largest_requests import WIDE
from benchmarks.peers.holds import NOTHING, Hold, longest_hold
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, stop
from logstore.ports.clock import blocking_sleep_s
from logstore.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tools.full_wire import Connection
from tools.fuzz.amplifiers import ACTS, COMPACTED, Attack
from tools.fuzz.brokers import (
    BROKERS,
    CREATE_TOPICS,
    HEALTHY,
    HEALTHY_S,
    SETTINGS,
    Healthy,
    address_of,
    each_of,
    report,
)

WIDE_PARTITIONS = 2_000
AFTER_S = 1.0
"""After an act, before its effects are read: what it left to do is its own."""


@dataclass
class Worst:
    """Of one act, in all rounds."""

    hold: Hold = NOTHING
    wait_s: float = 0.0
    took_s: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz.amplified", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    directory = Path(tempfile.mkdtemp(prefix="logstore-fuzz-"))
    try:
        server = start_logstore(directory, brokers=BROKERS, is_held=True, settings=SETTINGS)
        try:
            return _run(server, directory, options)
        finally:
            stop(server.processes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(server: Server, directory: Path, options: argparse.Namespace) -> int:
    compact = [CreatableTopicConfig("cleanup.policy", "compact")]
    topics = [
        CreatableTopic(WIDE, WIDE_PARTITIONS, 1),
        CreatableTopic(COMPACTED, BROKERS, 1, configs=compact),
        CreatableTopic(HEALTHY, BROKERS, 1),
    ]
    with Connection.open(*address_of(server), HEALTHY_S) as admin:
        admin.call(CREATE_TOPICS, CreateTopicsRequest(topics, 30_000), 7)
    blocking_sleep_s(AFTER_S)
    each = each_of(server)
    before = [one.rss_bytes() for one in each]
    healthy = [Healthy(address_of(one)) for one in each]
    for client in healthy:
        client.start()
    worst = _attack_all(each, healthy, options)
    for client in healthy:
        client.is_over.set()
        client.join(HEALTHY_S)
    for name, one in worst.items():
        sys.stdout.write(
            f"{name}: hold_ms={one.hold.ms:.1f} collector_ms={one.hold.collector_ms:.1f} "
            f"healthy_longest_ms={one.wait_s * 1e3:.0f} seconds={one.took_s:.0f} "
            f"in={one.hold.what}\n"
        )
    sys.stdout.write(f"rss_mib_afterwards={[one.rss_bytes() >> 20 for one in each]}\n")
    return report(each, directory, healthy, before)


def _attack_all(
    each: Sequence[Server], healthy: Sequence[Healthy], options: argparse.Namespace
) -> dict[str, Worst]:
    worst = {name: Worst() for name in ACTS}
    end_s = time.perf_counter() + options.minutes * 60
    for number, name in enumerate([*ACTS] * options.rounds):
        if time.perf_counter() > end_s:
            sys.stderr.write(f"fuzz: {number} acts, then the time was over\n")
            break
        target = each[number % len(each)]
        for one in each:
            longest_hold(one)
        for client in healthy:
            client.longest_s = 0.0
        began_s = time.perf_counter()
        rng = random.Random(f"{options.seed} {number}")
        ACTS[name](Attack(address_of(target), rng, 1.0))
        blocking_sleep_s(AFTER_S)
        found = worst[name]
        found.took_s = max(found.took_s, time.perf_counter() - began_s)
        found.wait_s = max(found.wait_s, *(client.longest_s for client in healthy))
        holds = [found.hold, *map(longest_hold, each)]
        found.hold = max(holds, key=lambda hold: hold.ms)
    return worst


if __name__ == "__main__":
    sys.exit(main())
