"""Tables for tests: rows as compaction decodes them, their files, commits that name these."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from logstore.history.delta import Tables
from logstore.history.forms.columns import file_schema
from logstore.history.forms.snapshot import DataFile, Snapshot, TableCommit
from logstore.history.write import TableWriter
from logstore.objects.directory import DirectoryStore
from logstore.ports.objects import BlockingObjectStore, Buffer

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
NOW_MS = 1_700_000_000_000


class SetTime:
    """A clock that says what a test sets."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic_s(self) -> float:
        return self.now / 1000

    async def sleep_s(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


def row(offset: int, **fields: Any) -> dict[str, Any]:
    time_ms = fields.get("timestamp_ms", NOW_MS + offset)
    plain = {
        "offset": offset,
        "timestamp": None if time_ms is None else time_ms * 1000,
        "timestamp_ms": time_ms,
        "timestampType": 0,
        "key": f"key-{offset}".encode(),
        "value": f"value-{offset}".encode() * 3,
        "headers": [],
        "leader_epoch": 1,
        "raw_batch": None,
    }
    return {**plain, **fields}


def rows_of(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), file_schema())


def some_rows(start: int, end: int, **fields: Any) -> pa.RecordBatch:
    return rows_of([row(offset, **fields) for offset in range(start, end)])


def written(
    store: BlockingObjectStore,
    rows: pa.RecordBatch,
    *,
    partition: int = 0,
    run: str = "run",
    number: int = 0,
    **limits: Any,
) -> list[DataFile]:
    writer = TableWriter(store, TOPIC_ID, partition, run, number, **limits)
    writer.write(rows)
    return writer.close()


def a_file(start: int, end: int, *, partition: int = 0, run: str = "run") -> DataFile:
    """A name and numbers, without an object."""
    path = f"partition={partition}/{start:020d}-{end:020d}-{run}-0.parquet"
    return DataFile(
        path, partition, end - start, 1000, start, end - 1, NOW_MS + start, NOW_MS + end - 1
    )


def moved(
    tables: Tables, snapshot: Snapshot, *spans: tuple[int, int, int], run: str = "run"
) -> Snapshot:
    """A commit of one nameless file for each (partition, start, end)."""
    return tables.commit(snapshot, move(*spans, run=run))


def move(*spans: tuple[int, int, int], run: str = "run") -> TableCommit:
    return TableCommit(
        starts={partition: start for partition, start, _ in spans},
        ends={partition: end for partition, _, end in spans},
        adds=[a_file(start, end, partition=partition, run=run) for partition, start, end in spans],
        run=run,
    )


class StampedStore(DirectoryStore):
    """A directory whose files are as old as a clock says: what the store of a bucket stamps."""

    def __init__(self, root: Path, clock: SetTime) -> None:
        super().__init__(root)
        self._folder, self._stamps = root, clock

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        super().create(key, parts)
        seconds = self._stamps.now / 1000
        os.utime(self._folder / key, (seconds, seconds))


def directory_tables(root: Path, clock: SetTime | None = None) -> Tables:
    return Tables(str(root), clock=clock or SetTime())


def stamped_tables(root: Path, clock: SetTime) -> Tables:
    """In a store that stamps by the same clock as committers."""
    return Tables(str(root), store=StampedStore(root, clock), clock=clock)


def directory_store(root: Path) -> DirectoryStore:
    return DirectoryStore(root)
