"""Key compaction of one partition: MB of records per CPU-second of each step, and of all together.

    scan       keys read and reduced to digests; in memory: and decided about
    decide     in buckets: the last row of each digest
    rewrite    files without their dead rows

MB are keys and values of all records of the partition as they were produced, about 200 MB. Values
are like JSON; a key of 20 bytes is drawn from a third as many as there are records, so most records
are dead and every file is written again. `as moved`: files as moves write them, where values must
be read to find tombstones; `cleaned before`: files that say that there are none. Tasks run in this
process, one after the other; CPU is theirs. Needs no server.
"""

import random
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa

from benchmarks.cases.decode import like_json
from benchmarks.contenders import Contenders
from benchmarks.options import Options
from logstore.compaction.clean_task import run_clean_task
from logstore.compaction.decisions.clean_objects import Piece
from logstore.compaction.decisions.clean_plan import (
    CleanFound,
    CleanPlace,
    CleanTask,
    DecideTask,
    RewriteTask,
    ScanTask,
)
from logstore.compaction.decisions.clean_rules import CleanLimits, Unit, units_of
from logstore.history.forms.columns import file_schema
from logstore.history.forms.snapshot import DataFile
from logstore.history.write import TableWriter
from logstore.objects.directory import DirectoryStore

LOG_BYTES = 200_000_000
VALUES_BYTES = (1000, 100)
BUCKETS = 4
FILES = 8
TOPIC_ID = bytes(16)
TIME_MS = 1_700_000_000_000
ROWS_AT_ONCE = 8192
SCAN_ROWS = CleanLimits().scan_rows


def contenders(options: Options) -> Contenders:
    return {
        f"{how}, {files}": partial(_run, options, how == "in buckets", files == "cleaned before")
        for how in ("in memory", "in buckets")
        for files in ("as moved", "cleaned before")
    }


def _run(options: Options, in_buckets: bool, counts_null_values: bool) -> dict[str, float]:
    figures = {}
    for value_bytes in VALUES_BYTES:
        with tempfile.TemporaryDirectory(prefix="logstore-clean-") as folder:
            table = _Table(Path(folder), value_bytes, options.scale, counts_null_values)
            for step, seconds in table.clean(in_buckets).items():
                name = f"{value_bytes} B: {step}, MB per CPU-s"
                figures[name] = table.size_bytes / seconds / 1e6
    return figures


class _Table:
    def __init__(
        self, folder: Path, value_bytes: int, scale: float, counts_null_values: bool
    ) -> None:
        self._store = DirectoryStore(folder)
        self._numbers = count(1)
        rows = int(LOG_BYTES * scale) // (value_bytes + 20)
        self.size_bytes = rows * (value_bytes + 20)
        self.files = self._filled(rows, value_bytes, counts_null_values)

    def clean(self, in_buckets: bool) -> dict[str, float]:
        """CPU seconds by step."""
        units = units_of(self.files)
        buckets = BUCKETS if in_buckets else 0
        found, seconds = CleanFound(), {}
        scan = ScanTask(
            **self._place(),
            units=units,
            bucket_count=buckets,
            horizon=0,
            rows_max=SCAN_ROWS,
            at_once_bytes=0,
            dead_ratio_min=0,
        )
        seconds["scan"] = self._timed([scan], found)
        if in_buckets:
            tasks: list[CleanTask] = [
                DecideTask(**self._place(), pieces=pieces, horizon=0)
                for pieces in found.buckets.values()
            ]
            seconds["decide"] = self._timed(tasks, found)
        rewrites = [self._rewrite(unit, found) for unit in units]
        seconds["rewrite"] = self._timed(rewrites, found)
        assert found.dropped
        seconds["all"] = sum(seconds.values())
        return seconds

    def _rewrite(self, unit: Unit, found: CleanFound) -> RewriteTask:
        mine = found.units[unit.index]
        dead: list[Piece] = mine.dead_pieces
        return RewriteTask(
            **self._place(),
            units=[unit],
            rows=mine.rows,
            dead=dead,
            tombstones=mine.tombstone_pieces,
        )

    def _timed(self, tasks: Sequence[CleanTask], found: CleanFound) -> float:
        began_s = time.process_time()
        for task in tasks:
            result = run_clean_task(self._store, task, "0")
            assert result.found is not None
            found.add(result.found)
        return time.process_time() - began_s

    def _place(self) -> CleanPlace:
        return {
            "run": "run",
            "number": next(self._numbers),
            "topic_id": TOPIC_ID,
            "topic": "state",
            "partition": 0,
            "within_bytes": 0,
        }

    def _filled(self, row_count: int, value_bytes: int, counts_null_values: bool) -> list[DataFile]:
        rng = random.Random(value_bytes)
        values = [like_json(value_bytes, number) for number in range(512)]
        files: list[DataFile] = []
        for number in range(FILES):
            writer = TableWriter(
                self._store, TOPIC_ID, 0, "fill", number, counts_null_values=counts_null_values
            )
            low, high = (row_count * end // FILES for end in (number, number + 1))
            for start in range(low, high, ROWS_AT_ONCE):
                offsets = range(start, min(start + ROWS_AT_ONCE, high))
                writer.write(_rows(rng, offsets, row_count // 3, values))
            files += writer.close()
        return files


def _rows(
    rng: random.Random, offsets: range, key_count: int, values: Sequence[bytes]
) -> pa.RecordBatch:
    times = [TIME_MS + offset for offset in offsets]
    columns = {
        "offset": offsets,
        "timestamp": [1000 * time_ms for time_ms in times],
        "timestamp_ms": times,
        "timestampType": [0] * len(offsets),
        "key": [b"key-%016d" % rng.randrange(key_count) for _ in offsets],
        "value": [values[offset % len(values)] for offset in offsets],
        "headers": [[]] * len(offsets),
        "leader_epoch": [1] * len(offsets),
        "raw_batch": [None] * len(offsets),
    }
    schema = file_schema()
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)
