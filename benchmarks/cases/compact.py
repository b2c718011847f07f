"""Compaction with one worker: MB of batches per CPU-second and by the wall, from a log to tables.

Whole runs, as `logstore compact --now --workers 1` makes them: the driver's look at the log, its
tasks in the same process, commits, rows. CPU is that of the process with all its threads; a run
over a small log came before and is not counted. The log was filled with batches of about 16 KB in
segments of `--segment-bytes`; how many partitions share it: --partitions. With --share the rest of
each segment is of a topic without a table.
"""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.cases.decode import like_json
from benchmarks.contenders import Contenders
from benchmarks.options import Options
from benchmarks.peers.log_place import LogPlace, log_place
from benchmarks.peers.server import forget_peak_rss, peak_rss_bytes
from logstore.compaction.compactor import Compactor
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.epoch.log import Log, LogSettings
from logstore.errors import LogstoreError
from logstore.ports.clock import SystemClock
from logstore.protocol.chain.flush import FlushSettings
from logstore.protocol.leading.start import BrokerInfo
from logstore.records import native
from logstore.records.batch import Codec, check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wiring.open import open_log

TWINS = ("native", "pure")
TOPIC, OTHERS = "orders", "others"
UNCOMMITTED_BATCHES = 1024
LOG_BYTES, PURE_LOG_BYTES = 192 << 20, 24 << 20
"""Of batches before they are compressed."""

WARM_UP_BYTES = 4 << 20

BATCH_BYTES = 16 << 10
LOADS: Mapping[str, tuple[int, Codec]] = {
    "1000 B, none": (1000, "none"),
    "1000 B, lz4": (1000, "lz4"),
    "100 B, none": (100, "none"),
    "100 B, lz4": (100, "lz4"),
}


class _Filled(Exception):
    """Ends the broker that filled the log."""


def contenders(options: Options) -> Contenders:
    return {twin: partial(_run, twin, options) for twin in TWINS}


def _run(twin: str, options: Options) -> dict[str, float]:
    """By figure; nothing for the native codec where it is not built."""
    built = native.codec
    if twin == "native" and built is None:
        return {}
    native.codec = built if twin == "native" else None
    try:
        list(_figures(replace(options, partitions=options.partitions[:1]), WARM_UP_BYTES))
        return dict(_figures(options, LOG_BYTES if native.codec else PURE_LOG_BYTES))
    finally:
        native.codec = built


def _figures(options: Options, log_bytes: int) -> Iterator[tuple[str, float]]:
    for load, (value_bytes, codec) in LOADS.items():
        if load.startswith(options.load):
            for partitions in options.partitions:
                size = int(log_bytes * options.scale)
                shape = _Shape(partitions, value_bytes, codec, size)
                for figure, value in _filled_and_compacted(shape, codec, options).items():
                    yield f"{load}, {partitions} partitions: {figure}", value


def _filled_and_compacted(shape: "_Shape", codec: Codec, options: Options) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory(prefix="logstore-compact-") as folder,
        log_place(options, Path(folder)) as place,
    ):
        filled = asyncio.run(_fill(place, shape, options))
        place.far()
        return _compact(place, filled, codec)


@dataclass(frozen=True, slots=True)
class _Shape:
    partitions: int
    value_bytes: int
    codec: Codec
    size_bytes: int
    """Of all batches before they are compressed."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bytes of batches that go to the table: before they were compressed, and as stored."""

    size_bytes: int
    stored_bytes: int


def _compact(place: LogPlace, moved: _Moved, codec: Codec) -> dict[str, float]:
    """Figures of a run over the whole log."""
    storage = dict(place.storage)
    compactor = Compactor(place.url, storage, LocalCarrier(place.url, storage, workers=1))
    forget_peak_rss()
    began_s, cpu_s = time.perf_counter(), _cpu_s()
    try:
        summary = compactor.run(RunOptions(now=True))
    finally:
        compactor.close()
    assert summary.rows and not summary.errors, summary.errors
    wall_s, cpu_s = time.perf_counter() - began_s, _cpu_s() - cpu_s
    figures = {
        "MB per CPU-s": moved.size_bytes / cpu_s / 1e6,
        "MB/s (wall)": moved.size_bytes / wall_s / 1e6,
        "peak RSS MB": peak_rss_bytes(os.getpid()) / 1e6,
    }
    if codec != "none":
        figures["MB per CPU-s, as stored"] = moved.stored_bytes / cpu_s / 1e6
    if (fetched := place.fetched()) is not None:
        figures["GETs"] = fetched.gets
        figures["bytes fetched per byte wanted"] = fetched.got_bytes / moved.stored_bytes
    return figures


async def _fill(place: LogPlace, shape: _Shape, options: Options) -> _Moved:
    opened = await open_log(
        place.url,
        clock=SystemClock(),
        rng=random.Random(0),
        storage=place.storage,
        state_directory=place.state_directory,
    )
    count = stored_bytes = 0
    try:
        async with asyncio.TaskGroup() as tasks:
            me = BrokerInfo(1, "localhost", 9092, "", "the lock")
            flush = FlushSettings(interval_s=1.0, segment_bytes_max=options.segment_bytes)
            log = await Log.start(opened, me, LogSettings(flush=flush), tasks)
            await log.create_topic(TOPIC, shape.partitions, {})
            await log.create_topic(OTHERS, shape.partitions, {"logstore.table.enable": "false"})
            batches = [_batch(shape.value_bytes, shape.codec, number) for number in range(16)]
            for number in range(shape.size_bytes // BATCH_BYTES):
                is_ours = int((number + 1) * options.share + 1e-9) > count
                turn = count if is_ours else number - count
                batch = batches[turn % len(batches)]
                count += is_ours
                stored_bytes += len(batch) if is_ours else 0
                data = memoryview(batch)
                leaders = log.topics[TOPIC if is_ours else OTHERS].leaders
                leader = leaders[turn % shape.partitions]
                appended = leader.append(data, check_batch(data, 0, len(data)))
                if number % UNCOMMITTED_BATCHES == UNCOMMITTED_BATCHES - 1:
                    await _committed(log, appended.seq - 1)
            assert await log.close(timeout_s=60)
            raise _Filled
    except* _Filled:
        pass
    finally:
        await opened.close()
    return _Moved(count * BATCH_BYTES, stored_bytes)


async def _committed(log: Log, seq: int) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: LogstoreError | None) -> None:
        future.set_exception(error) if error else future.set_result(None)

    log.when_committed(seq, done)
    await future


def _batch(value_bytes: int, codec: Codec, number: int) -> bytes:
    return encode_batch(
        [
            Record(i, 1_700_000_000_000 + i, b"key%013d" % i, like_json(value_bytes, i + number))
            for i in range(max(1, BATCH_BYTES // (value_bytes + 30)))
        ],
        compression=codec,
    )


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
