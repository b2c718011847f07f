"""Raising log start: only up, only by who leads, never above the high watermark."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.formats.partition_row import PartitionRow, StartReason, partition_pk, partition_sk
from logstore.ports.registry import RowAbsent
from logstore.protocol.deletion.records_deletion import (
    HIGH_WATERMARK,
    OffsetOutOfRange,
    Raise,
    new_log_start,
    raise_log_start,
)
from logstore.testing.virtual_loop import run
from tests.logstore.written import WrittenLog

TOPIC_ID = b"t" * 16
ROW = PartitionRow.new(1, 7, (1, 2))


def raised(row: PartitionRow | None, *offsets: int) -> tuple[list[int | None], int | None]:
    """What chain 7 at leader epoch 0 answers at each offset, and the log start in the end."""

    async def scenario() -> tuple[list[int | None], int | None]:
        runner = WrittenLog().runner
        place = (partition_pk(TOPIC_ID, 3), partition_sk(TOPIC_ID, 3))
        if row is not None:
            await runner.registry.put_if(*place, row.row(), RowAbsent())
        reported = [
            await runner.run(raise_log_start(Raise(TOPIC_ID, 3, 7, 0, one))) for one in offsets
        ]
        stored = await runner.registry.get(*place)
        return reported, None if stored is None else PartitionRow.of(stored).log_start

    return run(scenario())


@given(st.lists(st.integers(0, 50), min_size=1))
def test_log_start_only_goes_up(offsets: list[int]) -> None:
    reported, stored = raised(ROW, *offsets)

    assert reported == [max(offsets[: n + 1]) for n in range(len(offsets))]
    assert stored == max(offsets)


@pytest.mark.parametrize(
    "row",
    [None, ROW.taken_by(broker=2, chain=9, start=5), ROW.taken_by(broker=1, chain=7, start=5)],
    ids=["gone", "led by another", "a later leadership"],
)
def test_who_does_not_lead_any_more_raises_nothing(row: PartitionRow | None) -> None:
    assert raised(row, 3) == ([None], None if row is None else 0)


def test_a_repeat_is_answered_with_the_log_start() -> None:
    assert raised(replace(ROW, log_start=9), 4, 9) == ([9, 9], 9)


@given(st.integers(-5, 60), st.integers(0, 50))
def test_an_offset_is_taken_up_to_the_high_watermark(offset: int, high_watermark: int) -> None:
    if offset == HIGH_WATERMARK:
        assert new_log_start(offset, high_watermark=high_watermark) == high_watermark
    elif 0 <= offset <= high_watermark:
        assert new_log_start(offset, high_watermark=high_watermark) == offset
    else:
        with pytest.raises(OffsetOutOfRange):
            new_log_start(offset, high_watermark=high_watermark)


def test_a_change_of_leader_that_was_decided_before_keeps_log_start() -> None:
    async def scenario() -> PartitionRow:
        runner = WrittenLog().runner
        place = (partition_pk(TOPIC_ID, 3), partition_sk(TOPIC_ID, 3))
        await runner.registry.put_if(*place, ROW.row(), RowAbsent())
        taken = ROW.taken_by(broker=2, chain=9, start=10)
        await runner.run(raise_log_start(Raise(TOPIC_ID, 3, 7, 0, 4)))
        await runner.registry.update_if(*place, taken.leadership())
        stored = await runner.registry.get(*place)
        assert stored is not None
        return PartitionRow.of(stored)

    taken = ROW.taken_by(broker=2, chain=9, start=10)
    reason = StartReason.RECORDS_DELETED.to(4)
    assert run(scenario()) == replace(taken, log_start=4, start_reason=reason)
