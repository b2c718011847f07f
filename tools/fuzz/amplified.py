"""Attacks three brokers with few bytes: `python -m tools.fuzz.amplified --rounds 2 [--seed 0]`.

In each round every act of `tools.fuzz.amplifiers` has its turn, each at the next broker, while a
healthy client beside each broker produces. Shown by act: the longest hold of the event loop, by CPU
time, and the longest wait of any healthy client; at the end memory, and how often a broker was
fenced. Exit code 1: a broker was fenced, ended, or reported a fault of its own.
"""

import argparse
import random
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.largest_requests import WIDE
from benchmarks.peers.holds import NOTHING, Hold, longest_hold
from benchmarks.peers.server import Server
from logstore.ports.clock import blocking_sleep_s
from logstore.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from tools.fuzz.amplifiers import ACTS, COMPACTED, Attack
from tools.fuzz.under_attack import BROKERS, Healthy, address_of, attacked, healthy_beside, report

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
    compact = [CreatableTopicConfig("cleanup.policy", "compact")]
    topics = [
        CreatableTopic(WIDE, WIDE_PARTITIONS, 1),
        CreatableTopic(COMPACTED, BROKERS, 1, configs=compact),
    ]
    with attacked(topics) as each:
        blocking_sleep_s(AFTER_S)
        before = [one.rss_bytes() for one in each]
        with healthy_beside(each) as healthy:
            worst = _attack_all(each, healthy, options)
        _show(worst)
        sys.stdout.write(f"rss_mib_afterwards={[one.rss_bytes() >> 20 for one in each]}\n")
        return report(each, healthy, before)


def _show(worst: Mapping[str, Worst]) -> None:
    for name, one in worst.items():
        sys.stdout.write(
            f"{name}: hold_ms={one.hold.ms:.1f} collector_ms={one.hold.collector_ms:.1f} "
            f"healthy_longest_ms={one.wait_s * 1e3:.0f} seconds={one.took_s:.0f} "
            f"in={one.hold.what}\n"
        )


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
