"""Partition rows without a topic: how they are removed while their creator may still run. Steps.

    creation    partition rows → topic row → read the partition rows: clear every mark
    removal     mark the partition rows → read the topics → delete the rows that bear the mark

A creator may be suspended for hours between its partition rows and its topic row, and single rows
are all that a registry changes at once. Both sides write first and read afterwards, so one of them
sees the other: either the removal finds the topic and leaves its rows, or the creation finds a mark
and clears it, on which the deletion fails, or it finds a row gone, and was not acknowledged.

A write that was given up as lost may land later still. A mark is drawn for each removal and put on
condition of the row's write id: one that was cleared is never there again, and with it goes its
deletion. A mark says nothing about who leads.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from logstore.errors import ConditionFailed, LogstoreError
from logstore.formats.partition_row import (
    PARTITION_SPREAD,
    PartitionRow,
    partition_pk,
    partition_sk,
)
from logstore.ports.registry import WRITE_ID, Comparison, Row
from logstore.protocol.rows.metadata import read_topics
from logstore.protocol.rules.disposal import Ruling
from logstore.protocol.steps import (
    DeleteRow,
    DrawNonce,
    Gather,
    GetRow,
    QueryRows,
    Steps,
    UpdateRow,
    sliced,
)
from logstore.protocol.topics.witnesses import judge_half_done
from logstore.slices import Slices, parts_of

T = TypeVar("T")

SLICE_ROWS = 1_000
"""Looked at between two breaths: some 2 ms."""

REMOVAL = "removal"
"""Attribute of a partition row that is about to be removed: the mark. Empty: it was cleared."""


def remove_orphans(
    cluster_id: bytes, topic_id: bytes, rows: Mapping[int, PartitionRow]
) -> Steps[Ruling | None]:
    """Remove `rows`, by partition number: none of those whose leadership is another one by now.

    None: the topic has a row after all, and nothing was removed. Nothing is removed either where
    the ruling says that other rows of the topic were lost.
    """
    nonce: bytes = yield DrawNonce()
    mark = nonce.hex()
    marked = yield from _outcomes([_mark(topic_id, *numbered, mark) for numbered in rows.items()])
    ruling = yield from judge_half_done(cluster_id, topic_id)
    topics = yield from read_topics()
    if any(topic.topic_id == topic_id for topic in topics.values()):
        return None  # it may be led by now, too
    if ruling.may:
        numbers = [number for number, is_marked in zip(rows, marked, strict=True) if is_marked]
        yield from _outcomes([_delete(topic_id, number, mark) for number in numbers])
    return ruling


def keep_rows(topic_id: bytes, partitions: int) -> Steps[bool]:
    """Clear the marks of a topic whose row was just put. False: a row is gone.

    True: no removal that runs now, or that begins later, removes any of them. At most 16 queries.
    """
    pks = sorted(
        {partition_pk(topic_id, number) for number in range(min(partitions, PARTITION_SPREAD))}
    )
    parts = yield from _outcomes([_query(pk, f"{topic_id.hex()}/") for pk in pks])
    marks = yield from sliced(_marks_in(parts, topic_id, partitions))
    if marks is None:
        return False
    kept = yield from _outcomes([_clear(topic_id, number, mark) for number, mark in marks.items()])
    return all(kept)


def _marks_in(
    parts: Sequence[Sequence[tuple[str, Row]]], topic_id: bytes, partitions: int
) -> Slices[dict[int, str] | None]:
    """Marks by the numbers of the rows that bear one; None where a row is gone."""
    there: dict[str, str] = {}
    read_count = 0
    for part in parts:
        if read_count >= SLICE_ROWS:
            read_count = 0
            yield
        read_count += len(part)
        there.update((sk, str(row.get(REMOVAL) or "")) for sk, row in part)
    marks: dict[int, str] = {}
    for numbers in parts_of(range(partitions), SLICE_ROWS):
        if numbers[0]:
            yield
        for number in numbers:
            mark = there.get(partition_sk(topic_id, number))
            if mark is None:
                return None
            if mark:
                marks[number] = mark
    return marks


def _mark(topic_id: bytes, number: int, seen: PartitionRow, mark: str) -> Steps[bool]:
    key = partition_pk(topic_id, number), partition_sk(topic_id, number)
    row: Row | None = yield GetRow(*key)
    if row is None or not _is_led_alike(PartitionRow.of(row), seen):
        return False
    try:
        yield UpdateRow(*key, {REMOVAL: mark}, [Comparison(WRITE_ID, "=", row[WRITE_ID])])
    except ConditionFailed:
        return False  # it has changed or is gone: decide again from the row
    return True


def _is_led_alike(row: PartitionRow, seen: PartitionRow) -> bool:
    return (row.leader_epoch, row.chain) == (seen.leader_epoch, seen.chain)


def _delete(topic_id: bytes, number: int, mark: str) -> Steps[bool]:
    key = partition_pk(topic_id, number), partition_sk(topic_id, number)
    try:
        yield DeleteRow(*key, [Comparison(REMOVAL, "=", mark)])
    except ConditionFailed:
        return False  # its creator cleared the mark, or another removal was faster
    return True


def _clear(topic_id: bytes, number: int, mark: str) -> Steps[bool]:
    """Whether the row is there still."""
    key = partition_pk(topic_id, number), partition_sk(topic_id, number)
    try:
        yield UpdateRow(*key, {REMOVAL: ""}, [Comparison(REMOVAL, "=", mark)])
    except ConditionFailed as failed:
        # With another mark: that removal reads the topics later than this one did, and finds ours.
        return failed.current is not None
    return True


def _query(pk: str, prefix: str) -> Steps[Sequence[tuple[str, Row]]]:
    rows: Sequence[tuple[str, Row]] = yield QueryRows(pk, prefix)
    return rows


def _outcomes(steps: Sequence[Steps[T]]) -> Steps[Sequence[T]]:
    if not steps:
        return []
    results: Sequence[T | LogstoreError] = yield Gather(steps)
    done = []
    for result in results:
        if isinstance(result, LogstoreError):
            raise result
        done.append(result)
    return done
