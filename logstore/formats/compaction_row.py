"""Row of a compaction run: its state, and the offsets that it moves. Pure.

The offsets are packed as the ends in `table_row` are:

    cut     (topic id 16 bytes, table version + 1, partition count,
             (partition - one before, start, end - start) ...) ...      version + 1 is 0: no table
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

from logstore.errors import Corrupt
from logstore.formats.row_fields import OPTIONAL_INT, Form, decode_row, encode_row
from logstore.ports.registry import Row
from logstore.records.batch import CorruptBatch
from logstore.records.varint import decode_varint, encode_varint

COMPACTION = "compaction"
COMPACTOR = "compactor"
"""The lease that a run holds."""

TOPIC_ID_BYTES = 16


class RunStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"
    """It was found running by a later run, which has the lease: it is dead, or will find out."""


INTERRUPTED = "interrupted"
"""The outcome of a run that was asked to end: its broker stops, or is the controller no more."""

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


_CUT = Form(bytes, pack_cut, unpack_cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow:
    """One compaction run: start time, host and process (`by`), and the offsets that it moves."""

    status: RunStatus
    by: str
    began_ms: int
    ended_ms: int = 0
    cut: Annotated[Sequence[TopicCut], _CUT] = ()
    outcome: str = ""
    """How it ended, in a line."""
    objects: Annotated[int, OPTIONAL_INT] = 0
    """1: its tasks may have left objects for each other in the store."""

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "CompactionRow":
        return decode_row(CompactionRow, row)
