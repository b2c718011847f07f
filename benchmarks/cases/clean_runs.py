"""Key compaction as whole runs, by the number of partitions: MB of records per CPU-second, dollars.

    scan, decide, rewrite   CPU of the process while tasks of that kind are carried out
    run                     … and of the driver: its look at the log, commits, rows of the registry

`logstore compact --now --workers 1` in this process on a log in a directory, whose records all are
in the table: 200 MB of keys and values at scale 1, spread over the partitions of one topic. Values
are like JSON; a key of 20 bytes is drawn from a third as many as there are records, so most records
are dead and every file is written again. Every hundredth record is a tombstone. Partitions are
decided in memory, or, with one partition, also in buckets. Requests and dollars are those of the
run at the list prices of S3, by the size of the records, without those of the table's own log. A
small log came before and is not counted. Needs no server.
"""

import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.cases.decode import like_json
from benchmarks.contenders import Contenders
from benchmarks.options import Options
from logstore.compaction.compactor import Compactor
from logstore.compaction.decisions.clean_rules import CleanLimits
from logstore.compaction.local import LocalCarrier
from logstore.compaction.session import RunOptions
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.spark_source.log_on_disk import LogOnDisk

TOPIC = "state"
CONFIGS = {"cleanup.policy": "compact"}
LOG_BYTES, WARM_UP_BYTES = 200_000_000, 2_000_000
KEY_BYTES = 20
VALUES_BYTES = (1000, 100)
BATCH_BYTES = 64 << 10
BATCHES_AT_ONCE = 64
TOMBSTONES = 100
TIME_MS = 1_700_000_000_000
IN_BUCKETS = CleanLimits(in_memory_bytes=0, bucket_bytes=16 << 20)


def contenders(options: Options) -> Contenders:
    cases = {
        "1 partition": (1, CleanLimits()),
        "1, in buckets": (1, IN_BUCKETS),
        "64 partitions": (64, CleanLimits()),
        "1,000 partitions": (1000, CleanLimits()),
    }
    return {
        name: partial(_run, options.scale, partitions, limits)
        for name, (partitions, limits) in cases.items()
        if name.startswith(options.load)
    }


def _run(scale: float, partitions: int, limits: CleanLimits) -> dict[str, float]:
    figures: dict[str, float] = {}
    for value_bytes in VALUES_BYTES:
        _cleaned(WARM_UP_BYTES, value_bytes, min(partitions, 4), limits)
        mine = _cleaned(int(LOG_BYTES * scale), value_bytes, partitions, limits)
        figures |= {f"{value_bytes} B: {name}": figure for name, figure in mine.items()}
    return figures


def _cleaned(
    size_bytes: int, value_bytes: int, partitions: int, limits: CleanLimits
) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="logstore-clean-") as folder:
        url = str(Path(folder) / "log")
        with LogOnDisk(url) as log:
            log.create_topic(TOPIC, partitions, CONFIGS)
            record_bytes = _fill(log, size_bytes, value_bytes, partitions)
        return _figures(url, record_bytes, limits)


def _figures(url: str, record_bytes: int, limits: CleanLimits) -> dict[str, float]:
    carrier = _TimedCarrier(url)
    compactor = Compactor(url, {}, carrier)
    try:
        compactor.run(RunOptions(now=True, cleans=False))
        carrier.cpu_s.clear()
        began_s = time.process_time()
        summary = compactor.run(RunOptions(now=True, clean=limits))
        cpu_s = {**carrier.cpu_s, "run": time.process_time() - began_s}
    finally:
        compactor.close()
    topic = summary.topics[TOPIC]
    assert topic.dropped_rows and not summary.errors, summary.errors
    gigabytes = record_bytes / 1e9
    return {
        **{f"{kind}, MB per CPU-s": 1000 * gigabytes / spent for kind, spent in cpu_s.items()},
        "objects created per GB": summary.requests.creates / gigabytes,
        "GETs per GB": summary.requests.gets / gigabytes,
        "dollars per TB": 1000 * summary.dollars / gigabytes,
    }


class _TimedCarrier(LocalCarrier):
    """CPU seconds of this process by kind of task; a run carries out one kind after the other."""

    def __init__(self, url: str) -> None:
        super().__init__(url, {}, 1)
        self.cpu_s: dict[str, float] = {}

    def carry_out(self, tasks: Sequence[str]) -> Iterator[str]:
        began_s = time.process_time()
        results = list(super().carry_out(tasks))
        kind = str(json.loads(tasks[0])["kind"])
        self.cpu_s[kind] = self.cpu_s.get(kind, 0.0) + time.process_time() - began_s
        yield from results


def _fill(log: LogOnDisk, size_bytes: int, value_bytes: int, partitions: int) -> int:
    """Bytes of keys and values, about `size_bytes`."""
    rng = random.Random(value_bytes)
    values = [like_json(value_bytes, number) for number in range(512)]
    rows = size_bytes // (value_bytes + KEY_BYTES) // partitions
    per_batch = max(1, min(rows, BATCH_BYTES // value_bytes))
    waiting: list[tuple[str, int, bytes]] = []
    total = 0
    for first in range(0, rows, per_batch):
        for partition in range(partitions):
            records = [
                Record(
                    number,
                    TIME_MS + first + number,
                    b"key-%016d" % rng.randrange(max(1, rows // 3)),
                    None if rng.randrange(TOMBSTONES) == 0 else rng.choice(values),
                )
                for number in range(min(per_batch, rows - first))
            ]
            total += sum(KEY_BYTES + len(record.value or b"") for record in records)
            waiting.append((TOPIC, partition, encode_batch(records, compression="lz4")))
            if len(waiting) >= BATCHES_AT_ONCE:
                log.append_all(waiting)
                waiting = []
    if waiting:
        log.append_all(waiting)
    return total
