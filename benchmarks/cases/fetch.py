"""Fetch at the tail with librdkafka: MB per broker CPU-second, data in the broker's cache."""

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.load import LARGE, Load, chosen, consume, new_topic, produce
from benchmarks.options import Options
from benchmarks.peers.server import Server

LOADS = {"1KB": Load(1000, 200_000_000, LARGE), "100B": Load(100, 100_000_000, LARGE)}
READS = 5
"""Times the same data is read: a single pass costs too few CPU ticks to measure."""


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    figures = {}
    for name, load in chosen(LOADS, options).items():
        topic = new_topic(server.bootstrap)
        produce(server.bootstrap, topic, load)
        cpu_s = server.cpu_s()
        wall_s = sum(consume(server.bootstrap, topic, load.record_count) for _ in range(READS))
        cpu_s = server.cpu_s() - cpu_s
        figures[f"{name}: MB per broker CPU-s"] = READS * load.total_bytes / 1e6 / cpu_s
        figures[f"{name}: MB/s (wall)"] = READS * load.total_bytes / 1e6 / wall_s
    return figures
