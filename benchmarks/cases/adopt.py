"""One batch of a Spark sink of a terabyte: what its manifest costs the driver, and its leader.

    counted   100,000 objects of 8 MiB, each with rows of all 1,000 partitions: 100 million ranges.
              Bodies are empty, so the leader refuses the batch once it has counted it
    copied    100,000 objects with a small batch for each of 10 partitions, of 1,000

One broker leads all partitions. Files lie in memory of the machine, on S3 each read takes some
20 ms, 16 of them at once. Memory is that which the batch adds; `longest hold` is CPU time of the
longest callback of the broker's event loop.
"""

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.built_staging import StagedShape, stage
from benchmarks.contenders import Contenders, on_servers
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.holds import longest_hold
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, forget_peak_rss, peak_rss_bytes
from logstore.errors import Invalid
from logstore.formats.manifest import ManifestTopic
from logstore.formats.staging_keys import SinkBatch, sink_hash
from logstore.staging.manifests import OfferedBatch
from spark_source.sink.log import OpenSink

OBJECTS, PARTITIONS = 100_000, 1_000
TIMEOUT_S = 3_000.0
SHAPES = {
    "counted": StagedShape(OBJECTS, PARTITIONS, PARTITIONS, is_copied=False),
    "copied": StagedShape(OBJECTS, PARTITIONS, 10, is_copied=True),
}


class _Driven(NamedTuple):
    manifest_bytes: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    is_adopted: bool


def contenders(options: Options) -> Contenders:
    starts = {
        name: partial(start_logstore, is_held=True)
        for name in SHAPES
        if name.startswith(options.load)
    }
    return {
        name: on_servers({name: start}, partial(_run, SHAPES[name]), options)[name]
        for name, start in starts.items()
    }


def _run(shape: StagedShape, server: Server, options: Options) -> dict[str, float]:
    topic = new_topic(server.bootstrap, partitions=shape.partitions)
    objects = max(1_000, int(shape.objects * options.scale))
    scaled = StagedShape(objects, shape.partitions, shape.partitions_per_object, shape.is_copied)
    longest_hold(server)
    before_s, before_bytes = server.cpu_s(), server.rss_bytes()
    # A process of its own, so that its memory is what the driver of this batch takes.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        asked = str(server.directory), server.bootstrap, topic, scaled
        driven = process.submit(_drive, *asked).result()
    assert driven.is_adopted == shape.is_copied, "a batch with empty bodies is refused"
    hold = longest_hold(server)
    print(f"longest hold: {hold}", file=sys.stderr)
    return {
        "objects": objects,
        "manifest MB": driven.manifest_bytes / 1e6,
        "commit: s (wall)": driven.wall_s,
        "leader: CPU s": server.cpu_s() - before_s,
        "leader: peak memory MB": (server.peak_rss_bytes() - before_bytes) / 1e6,
        "leader: longest hold ms": hold.ms,
        "driver: CPU s": driven.cpu_s,
        "driver: peak memory MB": driven.peak_bytes / 1e6,
    }


def _drive(url: str, bootstrap: str, name: str, shape: StagedShape) -> _Driven:
    log = OpenSink(url, (), bootstrap)
    topic = log.topics(name)[name]
    batch = SinkBatch(sink_hash("benchmark"), 0)
    forget_peak_rss()
    before_bytes, now_ms = peak_rss_bytes(os.getpid()), log.clock.now_ms()
    staged = stage(Path(url), shape, topic.topic_id, batch, log.cluster_id, now_ms)
    offered = OfferedBatch(
        batch=batch,
        query_id="benchmark",
        run_id="benchmark",
        topics=[ManifestTopic(name, topic.topic_id, topic.partitions)],
        tasks=list(staged),
    )
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    is_adopted = True
    try:
        log.committer().commit(offered, timeout_s=TIMEOUT_S)
    except Invalid:
        is_adopted = False
    return _Driven(
        manifest_bytes=len(log.store.get(batch.manifest_key)),
        wall_s=time.perf_counter() - began_s,
        cpu_s=time.process_time() - began_cpu_s,
        peak_bytes=peak_rss_bytes(os.getpid()) - before_bytes,
        is_adopted=is_adopted,
    )
