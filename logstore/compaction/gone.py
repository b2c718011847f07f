"""Resolves a segment deleted before a task of compaction read it: reads the registry again.

Safety rule 6: an absent segment is neither a tail nor an end. What is below log start by now, or of
a topic that was deleted, is left out; the commit says so by where it ends. Anything else that was
wanted from there is missing, or another run moved it: then this one's commit would be refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Never, Protocol

from logstore.errors import Corrupt
from logstore.formats.partition_row import PartitionRow
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.reader import LogReader
from logstore.reading.run_batches import Resolve
from logstore.reading.segment_gone import SegmentGone
from logstore.reading.tasks import SeqRange
from logstore.wiring.open import open_readable


class RunRows(Protocol):
    """The calls needed of a `LogReader`."""

    def partition_row(self, key: TopicPartition) -> PartitionRow | None: ...

    def pieces(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> list[SegmentRange]: ...


def resolver(url: str, storage: Mapping[str, str]) -> Resolve[Never]:
    """Opens the registry only when it is needed."""

    def resolve(
        run: SeqRange, gone: SegmentGone, reached: Mapping[SegmentRange, int]
    ) -> tuple[Sequence[Never], SeqRange | None]:
        log = open_readable(url, storage)
        try:
            return (), rest_of(run, gone, reached, LogReader(log))
        finally:
            log.close()

    return resolve


def rest_of(
    run: SeqRange, gone: SegmentGone, reached: Mapping[SegmentRange, int], rows: RunRows
) -> SeqRange | None:
    """The rest of `run` above the deleted segment. Raises `Corrupt` if a segment is missing."""
    left = []
    for piece in run.pieces:
        start = reached.get(piece, piece.start)
        if piece.last_seq < gone.seq or start >= piece.end:
            continue
        key = TopicPartition(piece.topic_id, piece.partition)
        row = rows.partition_row(key)
        if row is None or row.log_start >= piece.end:
            continue
        start = max(start, row.log_start)
        for found in rows.pieces(key, row, start, piece.end):
            if found.chain == gone.chain and not gone.seq < found.first_seq <= run.last_seq:
                raise Corrupt(
                    f"a segment is missing: chain={gone.chain} seq={gone.seq} "
                    f"topic={piece.topic_id.hex()} partition={piece.partition} offset={start}; "
                    "see what the log holds with: logstore inspect"
                )
        left.append(replace(piece, start=start))
    if not left:
        return None
    return SeqRange(run.chain, gone.seq + 1, run.last_seq, tuple(left))
