"""A consumer catches up after a broker's restart: librdkafka reads a topic from the beginning.

The log is filled by one broker in segments of `--segment-bytes`, of which the topic has `--share`;
each window is a new broker, whose caches are empty, and a new consumer. Requests and bytes are
those of the broker's store by its own meter, from its start on. Kafka is not restarted: its fetch
is warm, from the page cache, and says what this consumer can take.
"""

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.contenders import Contender, Contenders, on_servers
from benchmarks.load import Load, consume, new_topic, produce_share, settings_of_share
from benchmarks.options import Options
from benchmarks.peers.counts import read_counts
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.log_place import LogPlace, log_place
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, running, stop
from benchmarks.warm import warmed

LOAD_BYTES = 400_000_000
"""Of all records, those of other topics too."""

RECORD_BYTES = 1000
PARTITIONS = (1, 4)
MB_S = "MB/s (wall)"
WINDOWS_MAX = 5


def contenders(options: Options) -> Contenders:
    found: dict[str, Contender] = {"logstore": partial(_ours, options)}
    if options.has_peer:
        found |= on_servers({"kafka": start_kafka}, _on_kafka, options)
    return found


def _ours(options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    for partitions in PARTITIONS:
        name = _name(partitions)
        if name.startswith(options.load):
            with (
                tempfile.TemporaryDirectory(prefix="logstore-bench-") as folder,
                log_place(options, Path(folder)) as place,
            ):
                topic, count = _fill(place, Path(folder), partitions, options)
                place.far()
                restart = partial(_restarted, place, topic, count, partitions)
                figures |= _warmed(name, restart)
    return figures


def _fill(place: LogPlace, folder: Path, partitions: int, options: Options) -> tuple[str, int]:
    """The topic's name, and its records."""
    server = start_logstore(folder, place=place, settings=options.fill_settings)
    try:
        return _produce(server, partitions, options)
    finally:
        stop(server.processes)


def _produce(server: Server, partitions: int, options: Options) -> tuple[str, int]:
    topic = new_topic(server.bootstrap, partitions=partitions)
    settings = settings_of_share(options.share)
    load = Load(RECORD_BYTES, int(LOAD_BYTES * options.scale), settings)
    count = produce_share(server.bootstrap, topic, load, share=options.share, spread=partitions)
    return topic, count


def _restarted(place: LogPlace, topic: str, count: int, partitions: int) -> dict[str, float]:
    """Figures of one consumer at a broker that has just been started."""
    start = partial(start_logstore, place=place, is_counted=True)
    segments = place.segment_count()
    with running(start) as server:
        cpu_s = server.cpu_s()
        wall_s = consume(server.bootstrap, topic, count, partitions=partitions)
        cpu_s = server.cpu_s() - cpu_s
        (counts,) = read_counts(server)
        peak = server.peak_rss_bytes()
    wanted = count * RECORD_BYTES
    gets = counts.store["get"] + counts.store["get_range"]
    got_bytes = counts.store_bytes["get"] + counts.store_bytes["get_range"]
    return {
        MB_S: wanted / 1e6 / wall_s,
        "broker CPU-s/GB": cpu_s / wanted * 1e9,
        "GETs": gets,
        "GETs per segment": gets / segments,
        "bytes fetched per byte wanted": got_bytes / wanted,
        "peak RSS MB": peak / 1e6,
    }


def _on_kafka(server: Server, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    for partitions in PARTITIONS:
        name = _name(partitions)
        if name.startswith(options.load):
            topic, count = _produce(server, partitions, options)
            read = partial(_again, server, topic, count, partitions)
            figures |= _warmed(name, read)
    return figures


def _again(server: Server, topic: str, count: int, partitions: int) -> dict[str, float]:
    cpu_s, wanted = server.cpu_s(), count * RECORD_BYTES
    wall_s = consume(server.bootstrap, topic, count, partitions=partitions)
    cpu_s = server.cpu_s() - cpu_s
    return {
        MB_S: wanted / 1e6 / wall_s,
        "broker CPU-s/GB": cpu_s / wanted * 1e9,
        "peak RSS MB": server.peak_rss_bytes() / 1e6,
    }


def _warmed(name: str, measure: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    found = warmed(f"catch_up: {name}", measure, MB_S, windows_max=WINDOWS_MAX)
    return {f"{name}: {figure}": value for figure, value in found.items()}


def _name(partitions: int) -> str:
    return f"{partitions} partition{'s' if partitions > 1 else ''}"
