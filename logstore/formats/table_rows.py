"""Rows of compaction: the known ends of a topic's table, and the plan of a compaction run.

    pk            sk               row
    table         <topic id>       TableRow, the copy row
    compaction    <run>            CompactionRow

Numbers per partition are packed, since a topic may have thousands and a row has 400 KB at most:
Kafka's varints, zig-zag, in the order below. A partition is stored as its distance from the one
before, so most numbers take a byte or two.

    ends    (partition - one before, end) ...
    cut     (topic id 16 bytes, table version + 1, partition count,
             (partition - one before, start, end - start) ...) ...      version + 1 is 0: no table

Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from logstore.errors import Corrupt
from logstore.formats.row_fields import field_of
from logstore.ports.registry import Row
from logstore.records.batch import CorruptBatch
from logstore.records.varint import decode_varint, encode_varint

TABLE = "table"
COMPACTION = "compaction"
COMPACTOR = "compactor"
"""The lease that a run holds."""

TOPIC_ID_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """The copy row: a hint that only goes up. The table itself says where it ends.

    `version` is the lowest version of the table to use, `ends` what that version holds. A row with
    version 0 and no ends says that there may be a table soon.
    """

    version: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)
    topic: str = ""
    """Name of the topic, for readers of this row after the topic was deleted."""
    on_delete: str = "drop"
    """Fate of the table once the topic is deleted: `logstore.table.on.delete`."""
    gone_ms: int = 0
    """When a run first found that the topic is deleted; 0: it is not, as far as is known."""
    swept_ms: int = 0
    """When the table's folder was last cleared of files that nothing names."""

    def row(self) -> Row:
        return {
            "version": self.version,
            "ends": pack_ends(self.ends),
            "topic": self.topic,
            "on_delete": self.on_delete,
            "gone_ms": self.gone_ms,
            "swept_ms": self.swept_ms,
        }

    @staticmethod
    def of(row: Row) -> "TableRow":
        return TableRow(
            version=field_of(row, "version", int),
            ends=unpack_ends(field_of(row, "ends", bytes)),
            topic=field_of(row, "topic", str, ""),
            on_delete=field_of(row, "on_delete", str, "drop"),
            gone_ms=field_of(row, "gone_ms", int, 0),
            swept_ms=field_of(row, "swept_ms", int, 0),
        )


class RunStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"
    """It was found running by a later run, which has the lease: it is dead, or will find out."""


NO_TABLE = -1


class CutRange(NamedTuple):
    """Offsets [start, end) of one partition that a run moves."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicCut:
    """Offsets of one topic that a run moves, from its table's end at `version` (or `NO_TABLE`)."""

    topic_id: bytes
    version: int
    ranges: Sequence[CutRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow:
    """One compaction run: start time, host and process (`by`), and the offsets that it moves."""

    status: RunStatus
    by: str
    began_ms: int
    ended_ms: int = 0
    cut: Sequence[TopicCut] = ()
    told: str = ""
    """How it ended, in a line."""

    def row(self) -> Row:
        return {
            "status": self.status.value,
            "by": self.by,
            "began_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "cut": pack_cut(self.cut),
            "told": self.told,
        }

    @staticmethod
    def of(row: Row) -> "CompactionRow":
        try:
            status = RunStatus(field_of(row, "status", str))
        except ValueError as error:
            raise Corrupt(f"compaction row with an unknown status: {error}") from error
        return CompactionRow(
            status=status,
            by=field_of(row, "by", str),
            began_ms=field_of(row, "began_ms", int),
            ended_ms=field_of(row, "ended_ms", int, 0),
            cut=unpack_cut(field_of(row, "cut", bytes)),
            told=field_of(row, "told", str, ""),
        )


def pack_ends(ends: Mapping[int, int]) -> bytes:
    packed = bytearray()
    before = 0
    for partition, end in sorted(ends.items()):
        packed += encode_varint(partition - before) + encode_varint(end)
        before = partition
    return bytes(packed)


def unpack_ends(packed: bytes) -> dict[int, int]:
    """Raises `Corrupt`."""
    ends: dict[int, int] = {}
    numbers = _numbers(packed, 0)
    partition = 0
    for distance in numbers:
        partition += distance
        ends[partition] = next(numbers, -1)
    if any(number < 0 for pair in ends.items() for number in pair):
        raise Corrupt("table row: its packed ends are cut short or invalid")
    return ends


def pack_cut(cut: Sequence[TopicCut]) -> bytes:
    packed = bytearray()
    for topic in cut:
        packed += topic.topic_id
        packed += encode_varint(topic.version + 1) + encode_varint(len(topic.ranges))
        before = 0
        for partition, start, end in topic.ranges:
            packed += encode_varint(partition - before)
            packed += encode_varint(start) + encode_varint(end - start)
            before = partition
    return bytes(packed)


def unpack_cut(packed: bytes) -> tuple[TopicCut, ...]:
    """Raises `Corrupt`."""
    cut = []
    at = 0
    try:
        while at < len(packed):
            topic_id = packed[at : at + TOPIC_ID_BYTES]
            version, at = decode_varint(packed, at + TOPIC_ID_BYTES, len(packed))
            count, at = decode_varint(packed, at, len(packed))
            ranges = []
            partition = 0
            for _ in range(count):
                distance, at = decode_varint(packed, at, len(packed))
                start, at = decode_varint(packed, at, len(packed))
                length, at = decode_varint(packed, at, len(packed))
                partition += distance
                ranges.append(CutRange(partition, start, start + length))
            cut.append(TopicCut(topic_id, version - 1, tuple(ranges)))
    except CorruptBatch as error:
        raise Corrupt(f"compaction row: its cut cannot be read: {error}") from error
    return tuple(cut)


def _numbers(packed: bytes, at: int) -> Iterator[int]:
    while at < len(packed):
        try:
            number, at = decode_varint(packed, at, len(packed))
        except CorruptBatch as error:
            raise Corrupt(f"table row: its ends cannot be read: {error}") from error
        yield number
