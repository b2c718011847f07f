"""The cost of followers: three brokers, one of which leads everything, with and without followers.

With three replicas the other two follow each partition: they GET headers and indexes of the
leader's segments. With one they only watch the registry, as they do in both.
"""

import time
from functools import partial

from benchmarks.contenders import Contender, Contenders, on_servers
from benchmarks.load import LARGE, Load, chosen, new_topic, produce
from benchmarks.options import Options
from benchmarks.peers.counts import counts_between, read_counts
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, Start

BROKERS, PARTITIONS = 3, 12
SETTLE_S = 1.0
"""After the last answer, until followers have read the last segment."""
WARM_UP = Load(1000, 50_000_000, LARGE)
LOADS = {"1KB": Load(1000, 600_000_000, LARGE), "100B": Load(100, 100_000_000, LARGE)}


def contenders(options: Options) -> Contenders:
    start: Start = partial(start_logstore, brokers=BROKERS, is_counted=True)
    found: dict[str, Contender] = {}
    for name, replicas in (("1 replica", (1,)), ("3 replicas", (1, 2, 3))):
        found |= on_servers({name: start}, partial(_run, replicas), options)
    return found


def _run(replicas: tuple[int, ...], server: Server, options: Options) -> dict[str, float]:
    """Broker 1 leads all."""
    figures: dict[str, float] = {}
    produce(server.bootstrap, _topic(server, replicas), WARM_UP)
    for name, load in chosen(LOADS, options).items():
        topic = _topic(server, replicas)
        time.sleep(SETTLE_S)
        counts, cpu_s = read_counts(server), server.cpu_s_of_each()
        wall_s = produce(server.bootstrap, topic, load, spread=PARTITIONS)
        time.sleep(SETTLE_S)
        leader_s, *others_s = [
            now - then for then, now in zip(cpu_s, server.cpu_s_of_each(), strict=True)
        ]
        _, *others = counts_between(counts, read_counts(server))
        gets = sum(one.store["get"] + one.store["get_range"] for one in others)
        got_bytes = sum(one.store_bytes["get"] + one.store_bytes["get_range"] for one in others)
        figures |= {
            f"{name}: MB/s (wall)": load.total_bytes / 1e6 / wall_s,
            f"{name}: MB per broker CPU-s": load.total_bytes / 1e6 / (leader_s + sum(others_s)),
            f"{name}: CPU s of the leader": leader_s,
            f"{name}: CPU s of the other two": sum(others_s),
            f"{name}: GETs/s of the other two": gets / wall_s,
            f"{name}: MB got by the other two": got_bytes / 1e6,
        }
    return figures


def _topic(server: Server, replicas: tuple[int, ...]) -> str:
    return new_topic(server.bootstrap, partitions=PARTITIONS, assignment=replicas)
