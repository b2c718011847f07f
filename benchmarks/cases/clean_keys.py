"""Key compaction of one partition with very many keys: seconds of CPU and memory of its tasks.

100 million keys of 20 bytes at scale 1, each written once, then a quarter of them again, values of
8 bytes, in files of a table in a directory: in buckets, as `logstore compact` does with its usual
sizes of tasks. Tasks run in this process, one after the other. CPU is that of the process while the
tasks of a kind run; memory, by how much its RSS rose at most while one task of that kind ran. The
driver's part is the size of all tasks and results as text. Needs no server.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.contenders import Contenders
from benchmarks.options import Options
from benchmarks.peers.server import forget_peak_rss, peak_rss_bytes
from logstore.compaction.clean_task import run_clean_task
from logstore.compaction.decisions.clean_keys import ROW_BYTES
from logstore.compaction.decisions.clean_plan import (
    CleanFound,
    CleanPlace,
    DecideTask,
    RewriteTask,
    ScanTask,
)
from logstore.compaction.decisions.clean_rules import (
    CleanLimits,
    Unit,
    UnitCounts,
    units_of,
    units_to_rewrite,
)
from logstore.compaction.decisions.plan import result_of, task_of
from logstore.history.forms.columns import file_schema
from logstore.history.forms.snapshot import DataFile
from logstore.history.write import TableWriter
from logstore.objects.directory import DirectoryStore

KEYS = 100_000_000
AGAIN = 4
ROWS_AT_ONCE = 65_536
TOPIC_ID = bytes(16)
TIME_MS = 1_700_000_000_000
DEAD_RATIO = 0.2

AnyTask = ScanTask | DecideTask | RewriteTask


def contenders(options: Options) -> Contenders:
    return {"in buckets": partial(_run, int(KEYS * options.scale))}


def _run(keys: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="logstore-clean-keys-") as folder:
        store = DirectoryStore(Path(folder))
        began_s = time.process_time()
        units = units_of(_filled(store, keys))
        work = _Work(store, units)
        return {"fill, CPU-s": time.process_time() - began_s, **work.clean()}


class _Work:
    def __init__(self, store: DirectoryStore, units: Sequence[Unit]) -> None:
        self._store = store
        self._units = units
        self._limits = CleanLimits()
        self._numbers = count(1)
        self._found = CleanFound()
        self._text_bytes = 0
        self.figures: dict[str, float] = {}

    def clean(self) -> dict[str, float]:
        rows = sum(unit.rows for unit in self._units)
        buckets = -(-rows * ROW_BYTES // self._limits.bucket_bytes)
        self._carry_out("scan", self._scans(buckets))
        self._carry_out("decide", self._decisions())
        dropped = self._carry_out("rewrite", self._rewrites())
        self.figures |= {
            "rows, M": rows / 1e6,
            "buckets": buckets,
            "rows dropped, M": dropped / 1e6,
            "texts of tasks and results, MB": self._text_bytes / 1e6,
        }
        return self.figures

    def _scans(self, buckets: int) -> Iterator[AnyTask]:
        group: list[Unit] = []
        for unit in self._units:
            if group and sum(one.rows for one in (*group, unit)) > self._limits.scan_rows:
                yield self._scan(group, buckets)
                group = []
            group.append(unit)
        yield self._scan(group, buckets)

    def _scan(self, units: Sequence[Unit], buckets: int) -> ScanTask:
        return ScanTask(
            **self._place(),
            units=units,
            bucket_count=buckets,
            horizon=0,
            rows_max=self._limits.scan_rows,
            at_once_bytes=0,
            dead_ratio_min=0,
        )

    def _decisions(self) -> Iterator[AnyTask]:
        for _, pieces in sorted(self._found.buckets.items()):
            yield DecideTask(**self._place(), pieces=pieces, horizon=0)

    def _rewrites(self) -> Iterator[AnyTask]:
        counts = {
            index: UnitCounts(unit.rows, unit.superseded, unit.keyless, unit.tombstones)
            for index, unit in self._found.units.items()
        }
        for index in units_to_rewrite(counts, DEAD_RATIO):
            unit = self._found.units[index]
            yield RewriteTask(
                **self._place(),
                units=[self._units[index]],
                rows=unit.rows,
                dead=unit.dead_pieces,
                tombstones=unit.tombstone_pieces,
            )

    def _carry_out(self, kind: str, tasks: Iterator[AnyTask]) -> int:
        """Rows that went."""
        process, risen, dropped = psutil.Process(), 0, 0
        began_s, done = time.process_time(), 0
        # All are made before the first is carried out, as in a run.
        for text in [task.text() for task in tasks]:
            forget_peak_rss()
            before = process.memory_info().rss
            task: Any = task_of(text)
            answer = run_clean_task(self._store, task, "0").text()
            risen = max(risen, peak_rss_bytes(os.getpid()) - before)
            self._text_bytes += len(text) + len(answer)
            found = result_of(answer).found
            assert found is not None
            dropped += found.dropped
            if kind != "rewrite":
                self._found.add(found)
            done += 1
        spent_s = time.process_time() - began_s
        self.figures |= {
            f"{kind}: tasks": done,
            f"{kind}, CPU-s": spent_s,
            f"{kind}: memory of a task, MB": risen / 1e6,
        }
        return dropped

    def _place(self) -> CleanPlace:
        return {
            "run": "run",
            "number": next(self._numbers),
            "topic_id": TOPIC_ID,
            "topic": "state",
            "partition": 0,
            "within_bytes": self._limits.within_bytes,
        }


def _filled(store: DirectoryStore, keys: int) -> list[DataFile]:
    """Each key once, in order; then every fourth again."""
    writer = TableWriter(store, TOPIC_ID, 0, "fill", 0, counts_null_values=True)
    rng = random.Random(1)
    value = pa.scalar(rng.randbytes(8), pa.binary())
    offset = 0
    for step in (1, AGAIN):
        for start in range(0, keys, ROWS_AT_ONCE * step):
            numbers = pa.array(range(start, min(start + ROWS_AT_ONCE * step, keys), step))
            writer.write(_rows(offset, numbers, value))
            offset += len(numbers)
    return writer.close()


def _rows(first: int, numbers: pa.Array, value: pa.Scalar) -> pa.RecordBatch:
    rows = len(numbers)
    offsets = pa.array(range(first, first + rows), pa.int64())
    times = pc.add(offsets, TIME_MS)
    digits = pc.utf8_lpad(numbers.cast(pa.string()), 16, "0")
    columns: dict[str, Callable[[], pa.Array]] = {
        "offset": lambda: offsets,
        "timestamp": lambda: pc.multiply(times, 1000).cast(pa.timestamp("us", "UTC")),
        "timestamp_ms": lambda: times,
        "timestampType": lambda: pa.repeat(pa.scalar(0, pa.int32()), rows),
        "key": lambda: pc.binary_join_element_wise("key-", digits, "").cast(pa.binary()),
        "value": lambda: pa.repeat(value, rows),
        "headers": lambda: pa.array([[]] * rows, file_schema().field("headers").type),
        "leader_epoch": lambda: pa.repeat(pa.scalar(1, pa.int32()), rows),
        "raw_batch": lambda: pa.nulls(rows, pa.binary()),
    }
    schema = file_schema()
    return pa.record_batch([columns[one.name]().cast(one.type) for one in schema], schema=schema)
