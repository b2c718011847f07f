"""Many consumers catch up at once after a broker's restart, beside a producer.

    20 places    twenty consumers, each from a place of its own, read a fifth of the log each
    same range   four consumers read all of one partition

The log is filled as for `catch_up`. Consumers share a process of the lowest priority, as if they
were on other machines; a producer of 1 MB/s before and beside them says what they cost others. Wall
time and latency are only as good as the machine is quiet. Kafka is not restarted.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Barrier

from benchmarks.contenders import Contender, Contenders, on_servers
from benchmarks.load import LARGE, Load, acknowledged_ms, consume, new_topic, produce
from benchmarks.options import Options
from benchmarks.peers.counts import Counts, read_counts
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.log_place import log_place
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, running, stop

LOAD_BYTES, RECORD_BYTES = 400_000_000, 1000
PARTITIONS = 4
RATE_BYTES_S, ALONE_S = 1_000_000, 10
LOWEST_PRIORITY = 19
BEGIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """`share` of the log is read by each of `consumers`; `is_spread`: from places of their own."""

    consumers: int
    share: float
    is_spread: bool


CROWDS = {"20 places": Crowd(20, 0.2, True), "same range": Crowd(4, 1 / PARTITIONS, False)}


@dataclass(frozen=True, slots=True)
class _Task:
    partition: int
    offset: int
    count: int


def contenders(options: Options) -> Contenders:
    found: dict[str, Contender] = {"logstore": partial(_ours, options)}
    if options.has_peer:
        found |= on_servers({"kafka": start_kafka}, _on_kafka, options)
    return found


def _ours(options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory(prefix="logstore-bench-") as folder,
        log_place(options, Path(folder)) as place,
    ):
        filling = start_logstore(Path(folder), place=place, settings=options.fill_settings)
        try:
            topic = _fill(filling, options)
        finally:
            stop(filling.processes)
        place.far()
        for name, crowd in _chosen(options).items():
            segments = place.segment_count()
            with running(partial(start_logstore, place=place, is_counted=True)) as server:
                figures |= _measured(name, crowd, server, topic, options)
                (counts,) = read_counts(server)
            figures |= _fetched(name, crowd, counts, segments, options)
    return figures


def _on_kafka(server: Server, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    topic = _fill(server, options)
    for name, crowd in _chosen(options).items():
        figures |= _measured(name, crowd, server, topic, options)
    return figures


def _chosen(options: Options) -> dict[str, Crowd]:
    return {name: crowd for name, crowd in CROWDS.items() if name.startswith(options.load)}


def _fill(server: Server, options: Options) -> str:
    topic = new_topic(server.bootstrap, partitions=PARTITIONS)
    load = Load(RECORD_BYTES, int(LOAD_BYTES * options.scale), LARGE)
    produce(server.bootstrap, topic, load, spread=PARTITIONS)
    return topic


def _measured(
    name: str, crowd: Crowd, server: Server, topic: str, options: Options
) -> dict[str, float]:
    other, tasks = new_topic(server.bootstrap), _tasks(crowd, options)
    alone_count = int(RATE_BYTES_S * ALONE_S * options.scale) // RECORD_BYTES
    pace = partial(acknowledged_ms, server.bootstrap, other, bytes_s=RATE_BYTES_S)
    alone_ms = pace(goes_on=lambda sent: sent < alone_count)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    cpu_s = server.cpu_s()
    child = context.Process(target=_read_all, args=(there, server.bootstrap, topic, tasks))
    child.start()
    there.close()
    beside_ms = pace(goes_on=lambda _: not here.poll())
    took_s: list[float] = here.recv()
    child.join()
    cpu_s = server.cpu_s() - cpu_s
    wanted_mb = sum(one.count for one in tasks) * RECORD_BYTES / 1e6
    found = {
        "MB/s in all (wall)": wanted_mb / max(took_s),
        "slowest to fastest consumer": min(took_s) / max(took_s),
        "broker CPU-s/GB": cpu_s / wanted_mb * 1e3,
        "peak RSS MB": server.peak_rss_bytes() / 1e6,
    }
    for when, ms in (("alone", alone_ms), ("beside", beside_ms)):
        found[f"acknowledged {when} p50 ms"] = ms[len(ms) // 2]
        found[f"acknowledged {when} p99 ms"] = ms[len(ms) * 99 // 100]
    return {f"{name}: {figure}": value for figure, value in found.items()}


def _fetched(
    name: str, crowd: Crowd, counts: Counts, segments: int, options: Options
) -> dict[str, float]:
    """Requests of the restarted broker, its own replay included, over what was to be read once."""
    gets = counts.store["get"] + counts.store["get_range"]
    got_bytes = counts.store_bytes["get"] + counts.store_bytes["get_range"]
    once = 1.0 if crowd.is_spread else crowd.share
    return {
        f"{name}: GETs per segment": gets / segments,
        f"{name}: bytes fetched per byte wanted": got_bytes / (LOAD_BYTES * options.scale * once),
    }


def _tasks(crowd: Crowd, options: Options) -> list[_Task]:
    """Places of partitions lie evenly from the beginning to where the last share begins."""
    in_partition = int(LOAD_BYTES * options.scale) // RECORD_BYTES // PARTITIONS
    if not crowd.is_spread:
        return [_Task(0, 0, in_partition)] * crowd.consumers
    each = int(in_partition * crowd.share)
    step = (in_partition - each) / max(1, crowd.consumers - 1)
    return [_Task(one % PARTITIONS, int(one * step), each) for one in range(crowd.consumers)]


def _read_all(out: Connection, bootstrap: str, topic: str, tasks: Sequence[_Task]) -> None:
    """In the consumers' process: a thread each, all at once. Sends wall seconds of each.

    Counted from one moment: a consumer that begins late finds in the broker's cache what the others
    had fetched, and would seem many times as fast as they are.
    """
    os.nice(LOWEST_PRIORITY)
    together = Barrier(len(tasks))
    with ThreadPoolExecutor(len(tasks)) as threads:
        began_s = time.perf_counter()
        ended = [threads.submit(_ended_s, together, bootstrap, topic, one) for one in tasks]
        out.send([one.result() - began_s for one in ended])


def _ended_s(together: Barrier, bootstrap: str, topic: str, task: _Task) -> float:
    together.wait(BEGIN_S)
    consume(bootstrap, topic, task.count, places={task.partition: task.offset})
    return time.perf_counter()
