"""Reading from the beginning with librdkafka: MB per broker CPU-second, from tables and segments.

Records are produced and moved to Parquet (`logstore compact`), segments deleted, and a new broker
makes batches again. Beside it: a new broker that reads the segments, and Apache Kafka. The data is
larger than a broker's caches, but in the machine's page cache. A cold fetch begins anywhere; its
time is that of a whole answer of 256 KiB or so.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks.contenders import Contenders, on_servers
from benchmarks.load import LARGE, PARTITIONS, Load, chosen, consume, new_topic, produce
from benchmarks.options import Options
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.moved import move_all
from benchmarks.peers.server import Server, running, stop
from logstore.wire.framing.client import Connection
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

LOADS = {"1KB": Load(1000, 400_000_000, LARGE), "100B": Load(100, 200_000_000, LARGE)}
READS = 2
COLD_FETCHES = 200
FETCH, FETCH_VERSION = 1, 12


def contenders(options: Options) -> Contenders:
    found: dict[str, partial[Mapping[str, float]]] = {
        "tables": partial(_old, options, is_moved=True),
        "segments": partial(_old, options, is_moved=False),
    }
    if options.has_peer:
        found |= {
            name: partial(once)
            for name, once in on_servers({"kafka": start_kafka}, _on_kafka, options).items()
        }
    return found


def _on_kafka(server: Server, options: Options) -> Mapping[str, float]:
    return _read_all(server, _write_all(server, options), options)


def _old(options: Options, *, is_moved: bool) -> Mapping[str, float]:
    """One broker writes, and is stopped; another one reads."""
    with tempfile.TemporaryDirectory(prefix="logstore-bench-") as folder:
        writer = start_logstore(Path(folder))
        try:
            topics = _write_all(writer, options)
        finally:
            stop(writer.processes)
        if is_moved:
            move_all(writer.directory)

        def again(_: Path) -> Server:
            return start_logstore(Path(folder), profiles=options.profiles)

        with running(again) as reader:
            return _read_all(reader, topics, options)


def _write_all(server: Server, options: Options) -> dict[str, str]:
    """Topics by the names of their loads."""
    topics = {}
    for name, load in chosen(LOADS, options).items():
        topics[name] = new_topic(server.bootstrap)
        produce(server.bootstrap, topics[name], load, spread=PARTITIONS)
    return topics


def _read_all(server: Server, topics: Mapping[str, str], options: Options) -> dict[str, float]:
    figures = {}
    for name, load in chosen(LOADS, options).items():
        moved = READS * load.total_bytes / 1e6
        cpu_s = server.cpu_s()
        wall_s = sum(
            consume(server.bootstrap, topics[name], load.record_count) for _ in range(READS)
        )
        figures[f"{name}: MB per broker CPU-s"] = moved / (server.cpu_s() - cpu_s)
        figures[f"{name}: MB/s (wall)"] = moved / wall_s
        took_ms = _cold_fetches(server, topics[name], load.record_count // PARTITIONS)
        figures[f"{name}: cold fetch p50 ms"] = statistics.median(took_ms)
        figures[f"{name}: cold fetch p99 ms"] = statistics.quantiles(took_ms, n=100)[98]
    figures["RSS afterwards, MB"] = server.rss_bytes() / 1e6
    return figures


def _cold_fetches(server: Server, topic: str, records: int) -> list[float]:
    """Milliseconds of fetches that begin anywhere in any partition."""
    rng, took_ms = random.Random(1), []
    host, _, port = server.bootstrap.partition(":")
    with Connection.open(host, int(port), 30.0) as client:
        for _ in range(COLD_FETCHES):
            partition, offset = rng.randrange(PARTITIONS), rng.randrange(records)
            wanted = FetchPartition(partition, -1, offset, partition_max_bytes=1)
            request = FetchRequest(
                -1, 0, 1, 1 << 20, topics=[FetchTopic(topic, partitions=[wanted])]
            )
            began_s = time.perf_counter()
            answer: FetchResponse = client.call(FETCH, request, FETCH_VERSION)
            took_ms.append((time.perf_counter() - began_s) * 1000)
            data = answer.responses[0].partitions[0]
            assert data.error_code == 0 and data.records, "a fetch brought nothing"
    return took_ms
