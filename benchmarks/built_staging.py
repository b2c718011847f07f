"""A huge batch of a sink, staged, at little cost: objects are hard links to a few files.

All objects have one nonce, so one file serves for all that hold the same partitions. A planned
batch has whole indexes and empty bodies: leaders read and count it, and refuse its first window. A
copied one has real batches, small ones.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from logstore.formats.segment import ENTRY, Entry, EntryKind, encode_front
from logstore.formats.staged_object import StagedBuilder, StagedRef, staged_header
from logstore.formats.staging_keys import SinkBatch, StagedName
from logstore.formats.topic_partition import TopicPartition
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.staging.task import StagedTask

NONCE = b"n" * 16
OBJECT_BYTES = 8 << 20
OBJECTS_PER_TASK = 100
LINKS_MAX = 30_000
"""A file system has a limit for each file."""
RECORDS, RECORD_BYTES = 8, 100


@dataclass(frozen=True, slots=True)
class StagedShape:
    """Each object has a batch of each of `partitions_per_object` partitions, the next in turn."""

    objects: int
    partitions: int
    partitions_per_object: int
    is_copied: bool

    def partitions_of(self, number: int) -> range:
        at = number * self.partitions_per_object % self.partitions
        return range(at, at + self.partitions_per_object)


def stage(
    root: Path,
    shape: StagedShape,
    topic_id: bytes,
    batch: SinkBatch,
    cluster_id: bytes,
    now_ms: int,
) -> Iterator[StagedTask]:
    """Makes the objects of the log at `root`, task by task."""
    (root / batch.prefix).mkdir(parents=True)
    made: dict[int, tuple[Path, int]] = {}
    links: dict[int, int] = {}
    for first in range(0, shape.objects, OBJECTS_PER_TASK):
        task = first // OBJECTS_PER_TASK
        refs: list[StagedRef] = []
        rows: dict[TopicPartition, int] = {}
        for number in range(first, min(shape.objects, first + OBJECTS_PER_TASK)):
            partitions = shape.partitions_of(number)
            name = StagedName(task, 1, number - first)
            path = root / name.key(batch)
            if links.get(partitions.start, LINKS_MAX) >= LINKS_MAX:
                size = _make(path, shape, topic_id, batch, cluster_id, now_ms, partitions)
                made[partitions.start], links[partitions.start] = (path, size), 1
            else:
                os.link(made[partitions.start][0], path)
                links[partitions.start] += 1
            refs.append(StagedRef(name, NONCE, made[partitions.start][1]))
            for one in partitions:
                where = TopicPartition(topic_id, one)
                rows[where] = rows.get(where, 0) + RECORDS
        yield StagedTask(task, rows, refs)


def _make(
    path: Path,
    shape: StagedShape,
    topic_id: bytes,
    batch: SinkBatch,
    cluster_id: bytes,
    now_ms: int,
    partitions: range,
) -> int:
    """Its size in bytes."""
    if shape.is_copied:
        builder = StagedBuilder()
        records = [Record(n, now_ms, b"k", bytes(RECORD_BYTES)) for n in range(RECORDS)]
        data = encode_batch(records)
        for one in partitions:
            builder.add(TopicPartition(topic_id, one), data)
        parts = builder.freeze(batch, cluster_id=cluster_id, nonce=NONCE, created_ms=now_ms)
        return path.write_bytes(b"".join(parts))
    length = OBJECT_BYTES // len(partitions)
    entries = [_entry(topic_id, one, at * length, length) for at, one in enumerate(partitions)]
    header = staged_header(batch, cluster_id, NONCE, now_ms, [bytes(len(entries) * length)])
    front = encode_front(header, b"".join(ENTRY.pack(*entry) for entry in entries), [])
    path.write_bytes(front)
    size = len(front) + header.body_bytes
    os.truncate(path, size)
    return size


def _entry(topic_id: bytes, partition: int, position: int, length: int) -> Entry:
    return Entry(
        kind=EntryKind.BATCH,
        flags=0,
        place=0,
        partition=partition,
        topic_id=topic_id,
        leader_epoch=-1,
        length=length,
        position=position,
        base_offset=0,
        last_offset=RECORDS - 1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        max_timestamp=1,
        max_timestamp_offset=-1,
        record_count=RECORDS,
        crc=0,
    )
