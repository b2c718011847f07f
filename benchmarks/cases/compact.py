"""Compaction on one core: MB of stored batches per CPU-second, from a log in a directory to tables.

Whole runs, as `logstore compact --now --workers 1` makes them: the driver's look at the log, its
tasks in the same process, commits, rows. CPU is that of the process with all its threads. The log
was filled before, with batches of about 16 KB; how many partitions share it: --partitions.
"""

import asyncio
import os
import random
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.cases.decode import like_json
from benchmarks.contenders import Contenders
from benchmarks.options import Options
from logstore.compaction.compactor import Compactor
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.epoch.log import Log, LogSettings
from logstore.errors import LogstoreError
from logstore.ports.clock import SystemClock
from logstore.protocol.flush import FlushSettings
from logstore.protocol.start import BrokerInfo
from logstore.records import native
from logstore.records.batch import Codec, check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.wiring.open import open_log

TWINS = ("native", "pure")
TOPIC = "orders"
LOG_BYTES, PURE_LOG_BYTES = 192 << 20, 24 << 20
"""Of batches before they are compressed."""

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
        return dict(_figures(options, LOG_BYTES if native.codec else PURE_LOG_BYTES))
    finally:
        native.codec = built


def _figures(options: Options, log_bytes: int) -> Iterator[tuple[str, float]]:
    for load, (value_bytes, codec) in LOADS.items():
        if load.startswith(options.load):
            for partitions in options.partitions:
                with tempfile.TemporaryDirectory(prefix="logstore-compact-") as folder:
                    size = int(log_bytes * options.scale)
                    stored = asyncio.run(_fill(Path(folder), partitions, value_bytes, codec, size))
                    spent_s = _compact(folder)
                name = f"{load}, {partitions} partitions"
                yield name, size / spent_s / 1e6
                if codec != "none":
                    yield f"{name}, as stored", stored / spent_s / 1e6


def _compact(url: str) -> float:
    """CPU seconds of a run over the whole log."""
    compactor = Compactor(url, {}, LocalCarrier(url, {}, workers=1))
    began_s = _cpu_s()
    try:
        summary = compactor.run(RunOptions(now=True))
    finally:
        compactor.close()
    assert summary.rows and not summary.errors, summary.errors
    return _cpu_s() - began_s


async def _fill(
    directory: Path, partitions: int, value_bytes: int, codec: Codec, size_bytes: int
) -> int:
    """Bytes of the batches as they are stored."""
    opened = await open_log(str(directory), clock=SystemClock(), rng=random.Random(0))
    stored_bytes = 0
    try:
        async with asyncio.TaskGroup() as tasks:
            me = BrokerInfo(1, "localhost", 9092, "", "the lock")
            log = await Log.start(opened, me, LogSettings(flush=FlushSettings()), tasks)
            topic = await log.create_topic(TOPIC, partitions, {})
            leaders = log.topics[TOPIC].leaders
            batches = [_batch(value_bytes, codec, number) for number in range(16)]
            for number in range(size_bytes // BATCH_BYTES):
                batch = batches[number % len(batches)]
                stored_bytes += len(batch)
                data = memoryview(batch)
                leader = leaders[number % partitions]
                appended = leader.append(data, check_batch(data, 0, len(data)))
                if number % 64 == 63:
                    await _committed(log, appended.seq)
            assert topic and await log.close(timeout_s=60)
            raise _Filled
    except* _Filled:
        pass
    finally:
        await opened.close()
    return stored_bytes


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
