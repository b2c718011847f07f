"""Changing where replicas are: only what was asked for, and never over a newer leadership."""

from dataclasses import replace

import pytest

from logstore.errors import ConditionFailed, Invalid, LogstoreError, Retryable
from logstore.formats.partition_row import NO_BROKER, PartitionRow, partition_pk, partition_sk
from logstore.ports.registry import RowAbsent
from logstore.protocol.steps import BackOff, GetRow, UpdateRow
from logstore.protocol.topics.life import UnknownTopic
from logstore.protocol.topics.replica_changes import (
    ATTEMPTS_MAX,
    Placement,
    change_placement,
    change_placements,
)
from logstore.testing.virtual_loop import run
from tests.logstore.written import WrittenLog

TOPIC_ID = b"t" * 16
ROW = replace(PartitionRow.new(1, 7, (1, 2)), log_start=4)


class Unwanted(Invalid): ...


def wanted(row: PartitionRow) -> Placement:
    if row.broker == 9:
        raise Unwanted("not this one")
    return Placement(row.replicas, (2, 3), 2)


def changed(
    *rows: PartitionRow | None,
) -> tuple[list[PartitionRow | LogstoreError], list[PartitionRow | None]]:
    """Outcomes for partitions 0, 1, 2 and so on, and their rows afterwards."""

    async def scenario() -> tuple[list[PartitionRow | LogstoreError], list[PartitionRow | None]]:
        runner = WrittenLog().runner
        places = [(partition_pk(TOPIC_ID, n), partition_sk(TOPIC_ID, n)) for n in range(len(rows))]
        for place, row in zip(places, rows, strict=True):
            if row is not None:
                await runner.registry.put_if(*place, row.row(), RowAbsent())
        asked = [(TOPIC_ID, number, wanted) for number in range(len(rows))]
        outcomes = list(await runner.run(change_placements(asked)))
        stored = [await runner.registry.get(*place) for place in places]
        return outcomes, [None if row is None else PartitionRow.of(row) for row in stored]

    return run(scenario())


def test_each_partition_has_its_own_outcome() -> None:
    other = PartitionRow.new(9, 8)
    outcomes, rows = changed(ROW, None, other)

    assert outcomes[0] == ROW
    assert isinstance(outcomes[1], UnknownTopic)
    assert isinstance(outcomes[2], Unwanted)
    assert rows == [replace(ROW, reassigning=(2, 3), target=2), None, other]


def test_nothing_is_written_where_nothing_changes() -> None:
    steps = change_placement(TOPIC_ID, 0, Placement.of)

    assert isinstance(next(steps), GetRow)
    with pytest.raises(StopIteration):
        steps.send(ROW.row())


def test_a_row_that_has_a_new_leader_is_decided_on_again() -> None:
    taken = ROW.taken_by(broker=2, chain=8, start=5)
    steps = change_placement(TOPIC_ID, 0, lambda row: Placement((row.broker,), (), NO_BROKER))
    next(steps)
    first = steps.send(ROW.row())
    assert isinstance(steps.throw(ConditionFailed("lost", taken.row())), BackOff)
    second = steps.send(None)

    assert isinstance(first, UpdateRow)
    assert isinstance(second, UpdateRow)
    assert (first.sets["replicas"], second.sets["replicas"]) == ("[1]", "[2]")
    assert first.conditions != second.conditions


def test_who_loses_every_race_gives_up() -> None:
    steps = change_placement(TOPIC_ID, 0, wanted)
    next(steps)
    steps.send(ROW.row())
    for _ in range(ATTEMPTS_MAX - 1):
        steps.throw(ConditionFailed("lost", ROW.row()))
        steps.send(None)
    steps.throw(ConditionFailed("lost", ROW.row()))
    with pytest.raises(Retryable):
        steps.send(None)
