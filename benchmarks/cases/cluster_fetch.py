"""Fetch from clusters at the tail: MB per CPU-second of all brokers together, and of each.

Data in the brokers' caches, read by one consumer from the leaders of all partitions; contenders and
copies as in `cluster_produce`.
"""

from benchmarks.contenders import Contenders, clusters
from benchmarks.load import LARGE, Load, chosen, consume, new_topic, produce
from benchmarks.options import Options
from benchmarks.peers.server import Server

PARTITIONS = 12
READS = 5
"""Times the same data is read: a single pass costs too few CPU ticks to measure."""
LOADS = {"1KB": Load(1000, 200_000_000, LARGE), "100B": Load(100, 100_000_000, LARGE)}


def contenders(options: Options) -> Contenders:
    return clusters(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    of_each: dict[str, float] = {}
    for name, load in chosen(LOADS, options).items():
        topic = new_topic(server.bootstrap, partitions=PARTITIONS, replicas=server.replicas)
        produce(server.bootstrap, topic, load, spread=PARTITIONS)
        count, moved = load.record_count, READS * load.total_bytes / 1e6
        before = server.cpu_s_of_each()
        wall_s = sum(
            consume(server.bootstrap, topic, count, partitions=PARTITIONS) for _ in range(READS)
        )
        spent_s = [now - then for then, now in zip(before, server.cpu_s_of_each(), strict=True)]
        figures[f"{name}: MB per broker CPU-s"] = moved / sum(spent_s)
        figures[f"{name}: MB/s (wall)"] = moved / wall_s
        for number, cpu_s in enumerate(spent_s, 1):
            of_each[f"CPU s of broker {number}, {name}"] = cpu_s
    return figures | of_each
