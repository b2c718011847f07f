"""What a task does about a segment that has gone since it was planned: asks the registry again.

Safety rule 6: an absent segment is neither a tail nor an end. Either the topic or the offsets went
by retention, or nothing of this task lay in it, or it should be there. Runs in executors, which
know the log's URL and nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from logstore.errors import Corrupt, Refused
from logstore.open import open_readable
from logstore.pieces import Piece, TopicPartition
from logstore.reader import LogReader, SegmentGone
from logstore.rows import PartitionRow
from spark_source.options import Storage
from spark_source.planning import Run

Resolve = Callable[[Run, SegmentGone, Mapping[Piece, int]], Run | None]
"""(run, what is gone, next offset by piece) → the rest of the run, if any is left."""


class Rows(Protocol):
    """What is asked of a `LogReader`."""

    def partition_row(self, key: TopicPartition) -> PartitionRow | None: ...

    def pieces(
        self, key: TopicPartition, row: PartitionRow, start: int, end: int
    ) -> list[Piece]: ...


def resolver(
    url: str, storage: Storage, topics: Mapping[bytes, str], *, fail_on_data_loss: bool
) -> Resolve:
    """`topics` are names by id. Opens the registry only when it is needed."""

    def resolve(run: Run, gone: SegmentGone, reached: Mapping[Piece, int]) -> Run | None:
        log = open_readable(url, dict(storage))
        try:
            return rest_of(
                run, gone, reached, LogReader(log), topics, fail_on_data_loss=fail_on_data_loss
            )
        finally:
            log.close()

    return resolve


def rest_of(
    run: Run,
    gone: SegmentGone,
    reached: Mapping[Piece, int],
    rows: Rows,
    topics: Mapping[bytes, str],
    *,
    fail_on_data_loss: bool,
) -> Run | None:
    """What is left of `run` above the gone segment.

    Raises `Refused` for records that are lost, `Corrupt` for a segment that should be there.
    """
    left = []
    for piece in run.pieces:
        start = reached.get(piece, piece.start)
        if piece.last_seq < gone.seq or start >= piece.end:
            continue
        key = TopicPartition(piece.topic_id, piece.partition)
        row = rows.partition_row(key)
        log_start = piece.end if row is None else row.log_start
        if log_start > start and fail_on_data_loss:
            why = "topic was deleted" if row is None else f"log start is {log_start} now"
            raise Refused(
                f"records of this query are gone: topic={topics[piece.topic_id]} "
                f"partition={piece.partition} offset={start}: {why}; to go on with what is left, "
                "set failOnDataLoss to false"
            )
        start = max(start, log_start)
        if row is None or start >= piece.end:
            continue
        if any(found.first_seq <= gone.seq for found in rows.pieces(key, row, start, piece.end)):
            raise Corrupt(
                f"a segment is missing: chain={gone.chain} seq={gone.seq} "
                f"topic={topics[piece.topic_id]} partition={piece.partition} offset={start}; "
                "see what the log holds with: logstore inspect"
            )
        left.append(replace(piece, start=start))
    if not left or gone.seq >= run.last_seq:
        return None
    return Run(run.chain, gone.seq + 1, run.last_seq, tuple(left))
