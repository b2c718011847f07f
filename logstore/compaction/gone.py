"""Resolves a segment deleted before a task of compaction read it: reads the registry again.

Safety rule 6: an absent segment is neither a tail nor an end. What is below log start by now, or of
a topic that was deleted, is left out; the commit says so by where it ends. Anything else that was
wanted from there is missing, or another run moved it: then this one's commit would be refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Never, Protocol

from logstore.errors import Corrupt
from logstore.formats.offset_range import OffsetRange
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.direct.reader import LogReader
from logstore.reading.direct.seq_range_batches import Resolve
from logstore.reading.planning.segment_gone import SegmentGone
from logstore.reading.planning.tasks import SeqRange
from logstore.wiring.open import open_readable


class RunRows(Protocol):
    """The calls needed of a `LogReader`."""

    def partition_row(self, key: TopicPartition) -> PartitionRow | None: ...

    def segment_ranges(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> list[SegmentRange]: ...


def resolver(url: str, storage: Mapping[str, str]) -> Resolve[Never]:
    """Opens the registry only when it is needed."""

    def resolve(
        seq_range: SeqRange, gone: SegmentGone, reached: Mapping[SegmentRange, int]
    ) -> tuple[Sequence[Never], SeqRange | None]:
        log = open_readable(url, storage)
        try:
            return (), rest_of(seq_range, gone, reached, LogReader(log))
        finally:
            log.close()

    return resolve


def rest_of(
    seq_range: SeqRange, gone: SegmentGone, reached: Mapping[SegmentRange, int], rows: RunRows
) -> SeqRange | None:
    """The rest of `seq_range` above the deleted segment. Raises `Corrupt` where one is missing."""
    left = []
    for segments in seq_range.segment_ranges:
        key, start, end = segments.offsets
        start = reached.get(segments, start)
        if segments.last_seq < gone.seq or start >= end:
            continue
        row = rows.partition_row(key)
        if row is None or row.log_start >= end:
            continue
        start = max(start, row.log_start)
        for current in rows.segment_ranges(key, row, start, end):
            if (
                current.chain == gone.chain
                and not gone.seq < current.first_seq <= seq_range.last_seq
            ):
                raise Corrupt(
                    f"a segment is missing: chain={gone.chain} seq={gone.seq} "
                    f"{key} "
                    f"offset={start}; see what the log holds with: logstore inspect"
                )
        left.append(replace(segments, offsets=OffsetRange(key, start, end)))
    if not left:
        return None
    return replace(seq_range, first_seq=gone.seq + 1, segment_ranges=tuple(left))
