"""Fetch with librdkafka: MB per broker CPU-second.

Of a topic that a broker's segment cache holds, as at the tail, and of one that is larger: what the
cache has dropped is read from the store again, where that is a directory from the page cache, from
which Kafka reads always.
"""

from functools import partial

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.load import LARGE, Load, chosen, consume, new_topic, produce
from benchmarks.options import Options
from benchmarks.peers.server import Server
from benchmarks.warm import warmed

LOADS = {
    "1KB": Load(1000, 100_000_000, LARGE),
    "1KB behind the cache": Load(1000, 300_000_000, LARGE),
    "100B": Load(100, 100_000_000, LARGE),
}
"""`logstore.cache.bytes` is 128 MiB; what is read in order again and again is in it as a whole or
not at all."""
READS = 10
"""Times the same data is read: a single pass costs too few CPU ticks to measure."""

MB_PER_CPU_S = "MB per broker CPU-s"


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, load in chosen(LOADS, options).items():
        topic = new_topic(server.bootstrap)
        produce(server.bootstrap, topic, load)
        window = partial(_window, server, topic, load)
        found = warmed(f"fetch: {server.name} {name}", window, MB_PER_CPU_S)
        figures |= {f"{name}: {figure}": value for figure, value in found.items()}
    return figures


def _window(server: Server, topic: str, load: Load) -> dict[str, float]:
    cpu_s = server.cpu_s()
    wall_s = sum(consume(server.bootstrap, topic, load.record_count) for _ in range(READS))
    cpu_s = server.cpu_s() - cpu_s
    return {
        MB_PER_CPU_S: READS * load.total_bytes / 1e6 / cpu_s,
        "MB/s (wall)": READS * load.total_bytes / 1e6 / wall_s,
    }
