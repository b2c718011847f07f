"""Rows of many topics and partitions are decoded and put in order a slice at a time."""

from collections.abc import Sequence
from typing import Any

from logstore.formats.partition_row import (
    PartitionRow,
    partition_pk,
    partition_pks,
    partition_sk,
)
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_row import TOPIC, TopicRow, TopicStatus
from logstore.ports.registry import Row
from logstore.protocol.rows.metadata import MERGED_ROWS, SLICE_ROWS, read_partition_rows
from logstore.protocol.rows.view import read_everything
from logstore.protocol.steps import Gather, GetRow, QueryRows, Steps, Wait
from logstore.protocol.topics.orphans import keep_rows

IDS = [bytes([number]) * 16 for number in (200, 3, 90)]
PARTITIONS = 2_000

Rows = Sequence[tuple[str, Row]]


def stored() -> dict[str, Rows]:
    """Rows of three topics by pk, as queries answer them."""
    rows: dict[str, list[tuple[str, Row]]] = {pk: [] for pk in partition_pks()}
    for topic_id in IDS:
        for number in range(PARTITIONS):
            row = PartitionRow.new(1, number).row()
            rows[partition_pk(topic_id, number)].append((partition_sk(topic_id, number), row))
    return {pk: sorted(some, key=lambda item: item[0]) for pk, some in rows.items()}


def run(steps: Steps[Any], rows: dict[str, Rows]) -> tuple[Any, int]:
    """The result of `steps`, and in how many breaths others had their turn."""
    breaths = 0
    answer: Any = None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as end:
            return end.value, breaths
        match request:
            case Gather(steps=all_of_them):
                answer = [run(one, rows)[0] for one in all_of_them]
            case QueryRows(pk=pk):
                answer = rows.get(pk, [])
            case GetRow():
                answer = None
            case Wait(seconds=0):
                breaths, answer = breaths + 1, None
            case _:
                raise AssertionError(request)


def test_partition_rows_come_in_order_and_in_slices() -> None:
    rows, breaths = run(read_partition_rows(), stored())

    keys = [TopicPartition(topic_id, n) for topic_id in sorted(IDS) for n in range(PARTITIONS)]
    assert list(rows) == keys
    assert rows[TopicPartition(IDS[0], 7)] == PartitionRow.new(1, 7)
    rows_of_a_query = len(IDS) * PARTITIONS // len(partition_pks())
    decoded = len(partition_pks()) * -(-rows_of_a_query // SLICE_ROWS)
    assert breaths == decoded + len(keys) // MERGED_ROWS - 2


def test_a_row_that_is_stored_twice_is_read_once() -> None:
    """Beside its place: a copy of rows that was put back by hand may have it there, too."""
    rows = stored()
    wrong = next(pk for pk in partition_pks() if pk != partition_pk(IDS[1], 0))
    again = (partition_sk(IDS[1], 0), PartitionRow.new(1, 0).row())
    rows[wrong] = sorted([*rows[wrong], again], key=lambda item: item[0])

    assert len(run(read_partition_rows(), rows)[0]) == len(IDS) * PARTITIONS


def test_rows_of_a_topic_just_made_are_looked_at_in_slices() -> None:
    rows = stored()
    kept, breaths = run(keep_rows(IDS[0], PARTITIONS), rows)

    assert kept
    assert breaths >= 2
    rows[partition_pk(IDS[0], 1_999)] = []
    assert not run(keep_rows(IDS[0], PARTITIONS), rows)[0]


def test_few_rows_are_read_without_a_breath() -> None:
    few = {pk: some[:1] for pk, some in stored().items()}

    assert run(read_partition_rows(), few)[1] == 0


def test_topic_rows_are_read_in_slices() -> None:
    topic = TopicRow(IDS[0], TopicStatus.LIVE, 1, {}, 1, 1)
    gone = TopicRow(IDS[1], TopicStatus.DELETED, 1, {}, 1, 1)
    names = [(f"t{number:05}", (gone if number % 2 else topic).row()) for number in range(1_000)]

    update, breaths = run(read_everything(), {TOPIC: names})

    assert len(update.topics) == 1_000
    assert (update.topics["t00000"], update.topics["t00001"]) == (topic, None)
    assert breaths == 1_000 // SLICE_ROWS - 1
