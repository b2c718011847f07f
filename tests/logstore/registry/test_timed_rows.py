"""Each attempt at a registry is measured, and billed as DynamoDB would."""

from collections.abc import Sequence

import pytest

from logstore.errors import ConditionFailed, OutcomeUnknown
from logstore.ports.registry import Condition, Row, RowAbsent, RowExists
from logstore.prices import ROW_READ_DOLLARS, ROW_WRITE_DOLLARS
from logstore.registry.memory import MemoryRows
from logstore.registry.timed import RegistryUnits, TimedRows
from logstore.request_times import RequestTimes
from logstore.testing.virtual_loop import VirtualClock, run


class LosesAnswers(MemoryRows):
    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        await VirtualClock().sleep_s(2)
        raise OutcomeUnknown("no answer")


def test_calls_are_measured_and_those_with_an_answer_are_billed() -> None:
    times, units = RequestTimes(), RegistryUnits()

    async def scenario() -> None:
        rows = TimedRows(LosesAnswers(), times, units, VirtualClock())
        await rows.put_if("p", "s", {"data": b"x" * 5000}, [RowAbsent()], "id-1")
        with pytest.raises(ConditionFailed):
            await rows.put_if("p", "s", {}, [RowAbsent()], "id-2")
        with pytest.raises(OutcomeUnknown):
            await rows.update_if("p", "s", {}, [RowExists()], "id-3")
        await rows.get("p", "s")
        await rows.query("p")
        await rows.delete_if("p", "s", [RowExists()], "id-4")

    run(scenario())
    assert {key: sum(one.counts) for key, one in times.by_kind.items()} == {
        ("put", "ok"): 1,
        ("put", "condition"): 1,
        ("update", "unknown"): 1,
        ("get", "ok"): 1,
        ("query", "ok"): 1,
        ("delete", "ok"): 1,
    }
    assert times.by_kind["update", "unknown"].total == 2
    assert (units.writes, units.reads) == (5 + 1 + 1, 2 + 2)
    expected = pytest.approx(7 * ROW_WRITE_DOLLARS + 4 * ROW_READ_DOLLARS)
    assert units.dollars() == expected
