"""One task of a run: segments → data files, or small data files → one. Plain Python over pyarrow.

Segments are fetched once, and what is wanted of them is kept as it came until all are there. Then
partitions are decoded and written, in offset order, a few at a time, so that one is encoded while
others are being put: at most the task's segments and a few row groups and files are in memory,
however many partitions there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import thread_time
from typing import NamedTuple, Never

from logstore.compaction.clean_task import run_clean_task
from logstore.compaction.decisions.plan import MergeTask, MoveTask, Task, TaskResult
from logstore.compaction.decoding import BYTES_MAX, ROWS_MAX, decoded
from logstore.errors import Corrupt
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.history.forms.snapshot import DataFile
from logstore.history.read import read_rows
from logstore.history.write import TableWriter
from logstore.ports.objects import BlockingObjectStore
from logstore.reading.direct.segment_fetch import FoundBatch, batches_of
from logstore.reading.direct.seq_range_batches import Resolve, seq_range_batches
from logstore.reading.direct.task_segments import TaskSegments, places_of

WRITERS = 8
"""Partitions at a time: a put takes 10 to 50 ms of waiting, a small file 3 ms of work."""


class _Written(NamedTuple):
    key: TopicPartition
    files: Sequence[DataFile]
    rows: int
    undecodable: int
    cpu_s: float


def run_task(
    store: BlockingObjectStore, task: Task, attempt: str, resolve: Resolve[Never] | None = None
) -> TaskResult:
    """`attempt` makes the names of files unique: a task may be tried again, or twice at once.

    `resolve` is asked when a segment is gone. Raises `Corrupt` for damage, saying where.
    """
    run = f"{task.run}-{attempt}"
    if isinstance(task, MoveTask):
        return _move(store, task, run, resolve)
    if isinstance(task, MergeTask):
        return _merge(store, task, run)
    return run_clean_task(store, task, attempt)


def _move(
    store: BlockingObjectStore, task: MoveTask, run: str, resolve: Resolve[Never] | None
) -> TaskResult:
    began_s = thread_time()
    gathered: dict[TopicPartition, list[FoundBatch]] = {}
    bytes_in: dict[bytes, int] = {}

    with TaskSegments(store, places_of(task.seq_ranges)) as segments:
        for each in task.seq_ranges:
            for batch in seq_range_batches(each, partial(batches_of, segments), resolve):
                key = batch.segments.offsets.partition
                gathered.setdefault(key, []).append(batch)
                bytes_in[key[0]] = bytes_in.get(key[0], 0) + len(batch.data)

    def write(key: TopicPartition) -> _Written:
        batches = gathered.pop(key)  # so that its segments can go when it is written
        writer = TableWriter(store, *key, run, task.number)
        return _write(key, batches, task.names[key[0]], writer)

    with ThreadPoolExecutor(WRITERS, thread_name_prefix="logstore-write") as threads:
        written = list(threads.map(write, sorted(gathered)))
    return TaskResult(
        number=task.number,
        files=[(one.key[0], file) for one in written for file in one.files],
        rows=sum(one.rows for one in written),
        bytes_in=bytes_in,
        undecodable={one.key: one.undecodable for one in written if one.undecodable},
        cpu_s=round(thread_time() - began_s + sum(one.cpu_s for one in written), 3),
    )


def _write(
    key: TopicPartition, batches: Sequence[FoundBatch], topic: str, writer: TableWriter
) -> _Written:
    began_s = thread_time()
    row_count = undecodable = 0
    for rows in decoded(batches, topic):
        writer.write(rows)
        row_count += rows.num_rows
        undecodable += rows.num_rows - rows.column("raw_batch").null_count
        del rows  # one row may be large, and its room is given up when the next is asked for
    files = writer.close()
    return _Written(key, files, row_count, undecodable, thread_time() - began_s)


def _merge(store: BlockingObjectStore, task: MergeTask, run: str) -> TaskResult:
    began_s = thread_time()
    first, last = task.files[0], task.files[-1]
    writer = TableWriter(store, task.topic_id, first.partition, run, task.number)
    count = 0
    for rows in read_rows(
        store,
        task.topic_id,
        task.files,
        first.partition,
        first.min_offset,
        last.max_offset + 1,
        TABLE_COLUMNS,
        rows_max=ROWS_MAX,
        bytes_max=BYTES_MAX,
    ):
        writer.write(rows)
        count += rows.num_rows
    files = writer.close()
    wanted = sum(file.rows for file in task.files)
    if count != wanted:
        raise Corrupt(
            f"files do not hold the rows that the table lists: topic={task.topic} "
            f"partition={first.partition} rows={count} said={wanted} first file={first.path}"
        )
    return TaskResult(
        number=task.number,
        files=[(task.topic_id, file) for file in files],
        rows=count,
        bytes_in={task.topic_id: sum(file.size_bytes for file in task.files)},
        cpu_s=round(thread_time() - began_s, 3),
    )
