"""Fetch at the tail with librdkafka: MB per broker CPU-second, data in the broker's cache."""

from benchmarks.load import Load, consume, new_topic, produce
from benchmarks.peers.server import Server

PEERS = ("logstore", "kafka")
_LARGE: dict[str, str | int] = {"linger.ms": 100, "batch.size": 1_048_576}
LOADS = {"1KB": Load(1000, 200_000_000, _LARGE), "100B": Load(100, 100_000_000, _LARGE)}
READS = 5
"""Times the same data is read: a single pass costs too few CPU ticks to measure."""


def run(server: Server) -> dict[str, float]:
    figures = {}
    for name, load in LOADS.items():
        topic = new_topic(server.bootstrap)
        produce(server.bootstrap, topic, load)
        cpu_s = server.cpu_s()
        wall_s = sum(consume(server.bootstrap, topic, load.record_count, {}) for _ in range(READS))
        cpu_s = server.cpu_s() - cpu_s
        figures[f"{name}: MB per broker CPU-s"] = READS * load.total_bytes / 1e6 / cpu_s
        figures[f"{name}: MB/s (wall)"] = READS * load.total_bytes / 1e6 / wall_s
    return figures
