"""Produce to clusters: MB per CPU-second of all brokers together, and what each of them spent.

The same client and loads everywhere, acks=all, partitions spread over all brokers. Ours keep one
copy of their own, since the object store is to keep the others; three nodes of Apache Kafka keep
three. What followers of ours cost is the case `followers`.
"""

from benchmarks.contenders import Contenders, clusters
from benchmarks.load import LARGE, Load, chosen, new_topic, produce
from benchmarks.options import Options
from benchmarks.peers.server import Server

PARTITIONS = 12
WARM_UP = Load(1000, 200_000_000, LARGE)
LOADS = {"1KB": Load(1000, 600_000_000, LARGE), "100B": Load(100, 100_000_000, LARGE)}


def contenders(options: Options) -> Contenders:
    return clusters(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    of_each: dict[str, float] = {}
    if options.profiles is None:
        produce(server.bootstrap, _topic(server), WARM_UP, spread=PARTITIONS)
    for name, load in chosen(LOADS, options).items():
        topic = _topic(server)
        before = server.cpu_s_of_each()
        wall_s = produce(server.bootstrap, topic, load, spread=PARTITIONS)
        spent_s = [now - then for then, now in zip(before, server.cpu_s_of_each(), strict=True)]
        figures[f"{name}: MB per broker CPU-s"] = load.total_bytes / 1e6 / sum(spent_s)
        figures[f"{name}: MB/s (wall)"] = load.total_bytes / 1e6 / wall_s
        for number, cpu_s in enumerate(spent_s, 1):
            of_each[f"CPU s of broker {number}, {name}"] = cpu_s
    return figures | of_each


def _topic(server: Server) -> str:
    return new_topic(server.bootstrap, partitions=PARTITIONS, replicas=server.replicas)
