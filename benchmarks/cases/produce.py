"""Produce with librdkafka: MB per broker CPU-second, 1 KB and 100 B, default and large batches."""

from functools import partial

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.load import LARGE, Load, chosen, new_topic, produce
from benchmarks.options import Options
from benchmarks.peers.server import Server
from benchmarks.warm import warmed

WARM_UP = Load(1000, 400_000_000, LARGE)
"""Not counted: fills a JVM's code cache, and every buffer that is used again later."""
LOADS = {
    "1KB default": Load(1000, 400_000_000, {}),
    "1KB large": Load(1000, 600_000_000, LARGE),
    "100B default": Load(100, 100_000_000, {}),
    "100B large": Load(100, 100_000_000, LARGE),
}
MB_PER_CPU_S = "MB per broker CPU-s"


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    if options.profiles is None:
        produce(server.bootstrap, new_topic(server.bootstrap), WARM_UP)
    for name, load in chosen(LOADS, options).items():
        window = partial(_window, server, load)
        found = warmed(f"produce: {server.name} {name}", window, MB_PER_CPU_S)
        figures |= {f"{name}: {figure}": value for figure, value in found.items()}
    return figures


def _window(server: Server, load: Load) -> dict[str, float]:
    """Of the whole load, to a new topic."""
    topic, cpu_s = new_topic(server.bootstrap), server.cpu_s()
    wall_s = produce(server.bootstrap, topic, load)
    cpu_s = server.cpu_s() - cpu_s
    return {
        MB_PER_CPU_S: load.total_bytes / 1e6 / cpu_s,
        "MB/s (wall)": load.total_bytes / 1e6 / wall_s,
    }
