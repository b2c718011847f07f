"""Retries: what a lost answer means, against a row store that loses them by script."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any, Literal, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import (
    ConditionFailed,
    Corrupt,
    Invalid,
    LogstoreError,
    NoRoom,
    OutcomeUnknown,
    Refused,
    Retryable,
    Throttled,
)
from logstore.ports.registry import WRITE_ID, Comparison, Condition, Row, RowAbsent, RowExists
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import NO_ROOM_S, RetryingRegistry
from logstore.retry import RetryDelays

Fault = Literal["none", "retryable", "throttled", "lost before", "lost after"]

FAULTS: st.SearchStrategy[Fault] = st.sampled_from(
    ["none", "retryable", "throttled", "lost before", "lost after"]
)
ROW: Row = {"n": 1}

Answer = TypeVar("Answer")


class StillClock:
    """Time that passes only while a caller sleeps, at once."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.sleeps_s: list[float] = []

    def monotonic_s(self) -> float:
        return self.passed_s

    def now_ms(self) -> int:
        return int(self.passed_s * 1000)

    async def sleep_s(self, seconds: float) -> None:
        self.sleeps_s.append(seconds)
        self.passed_s += seconds


class FaultyRows:
    """Rows in memory; each attempt meets the next fault of a script, then none."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self.rows = MemoryRows()
        self.write_ids: list[str] = []
        self.between: Callable[[], Awaitable[None]] | None = None  # once, after the first attempt
        self._faults = list(faults)

    async def get(self, pk: str, sk: str) -> Row | None:
        return await self._attempt(lambda: self.rows.get(pk, sk))

    async def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return await self._attempt(lambda: self.rows.query(pk, prefix, after=after, limit=limit))

    async def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.write_ids.append(write_id)
        await self._attempt(lambda: self.rows.put_if(pk, sk, row, conditions, write_id))

    async def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.write_ids.append(write_id)
        await self._attempt(lambda: self.rows.update_if(pk, sk, sets, conditions, write_id))

    async def delete_if(
        self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self.write_ids.append(write_id)
        await self._attempt(lambda: self.rows.delete_if(pk, sk, conditions, write_id))

    async def close(self) -> None:
        await self.rows.close()

    async def _attempt(self, call: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        fault = self._faults.pop(0) if self._faults else "none"
        try:
            return await self._meet(fault, call)
        finally:
            if self.between is not None:
                between, self.between = self.between, None
                await between()

    async def _meet(self, fault: Fault, call: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        match fault:
            case "none":
                return await call()
            case "retryable":
                raise Retryable("busy")
            case "throttled":
                raise Throttled("too fast")
            case "lost before":
                raise OutcomeUnknown("lost before applying")
            case "lost after":
                await verdict_of(call())
                raise OutcomeUnknown("lost after applying")


def registry_on(rows: FaultyRows, clock: StillClock | None = None) -> RetryingRegistry:
    ids = count()
    delays = RetryDelays(first_s=0.1, longest_s=2.0, deadline_s=60.0)
    return RetryingRegistry(
        rows, lambda: f"id-{next(ids)}", clock or StillClock(), Random(1), delays
    )


async def verdict_of(call: Awaitable[object]) -> str:
    try:
        await call
    except ConditionFailed:
        return "failed"
    return "done"


CALLS: dict[str, Callable[[RetryingRegistry], Awaitable[None]]] = {
    "put": lambda registry: registry.put_if("pk", "sk", {"n": 2}),
    "put if absent": lambda registry: registry.put_if("pk", "sk", {"n": 2}, RowAbsent()),
    "put if present": lambda registry: registry.put_if("pk", "sk", {"n": 2}, RowExists()),
    "put if n is 1": lambda registry: registry.put_if(
        "pk", "sk", {"n": 2}, Comparison("n", "=", 1)
    ),
    "update": lambda registry: registry.update_if("pk", "sk", {"m": 1}),
    "update if n is 1": lambda registry: registry.update_if(
        "pk", "sk", {"n": 2}, Comparison("n", "=", 1)
    ),
    "update if n is 9": lambda registry: registry.update_if(
        "pk", "sk", {"n": 2}, Comparison("n", "=", 9)
    ),
    "delete": lambda registry: registry.delete_if("pk", "sk"),
    "delete if n is 1": lambda registry: registry.delete_if("pk", "sk", Comparison("n", "=", 1)),
}


@given(
    name=st.sampled_from(sorted(CALLS)), there=st.booleans(), faults=st.lists(FAULTS, max_size=8)
)
def test_verdict_and_row_are_those_of_a_call_that_lost_nothing(
    name: str, there: bool, faults: list[Fault]
) -> None:
    async def play(faults: Sequence[Fault]) -> tuple[str, Row | None]:
        rows = FaultyRows(faults)
        if there:
            await rows.rows.put_if("pk", "sk", ROW, (), "before")
        verdict = await verdict_of(CALLS[name](registry_on(rows)))
        assert len(set(rows.write_ids)) == 1
        return verdict, await rows.rows.get("pk", "sk")

    verdict, row = asyncio.run(play(faults))
    true_verdict, true_row = asyncio.run(play(()))
    if name.startswith("delete") and not there and verdict == "done":
        # No row, and an earlier attempt may have been the one that removed it: unknowable.
        assert any(fault.startswith("lost") for fault in faults)
        assert row is None
    else:
        assert (verdict, row) == (true_verdict, true_row)


@given(sequence=st.lists(st.tuples(st.sampled_from(sorted(CALLS)), st.lists(FAULTS, max_size=4))))
def test_after_any_sequence_of_calls_the_row_is_what_the_verdicts_say(
    sequence: list[tuple[str, list[Fault]]],
) -> None:
    async def play() -> None:
        expected = MemoryRows()
        ids = count()
        rows = FaultyRows()
        registry = RetryingRegistry(rows, lambda: f"id-{next(ids)}", StillClock(), Random(1))
        for number, (name, faults) in enumerate(sequence):
            rows._faults = list(faults)
            verdict = await verdict_of(CALLS[name](registry))
            one_id = partial("id-{}".format, number)
            faultless = RetryingRegistry(expected, one_id, StillClock(), Random(1))
            true_verdict = await verdict_of(CALLS[name](faultless))
            row = await rows.rows.get("pk", "sk")
            assert row == await expected.get("pk", "sk")
            assert verdict == true_verdict or (name.startswith("delete") and row is None)

    asyncio.run(play())


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"update if n is 9", "put if absent"}))
def test_a_row_that_another_wrote_in_between_is_judged_by_the_conditions(name: str) -> None:
    async def scenario() -> None:
        rows = FaultyRows(["lost before"])
        await rows.rows.put_if("pk", "sk", ROW, (), "before")

        async def other_writer() -> None:
            await rows.rows.put_if("pk", "sk", {"n": 7}, (), "other")

        rows.between = other_writer
        try:
            await CALLS[name](registry_on(rows))
        except ConditionFailed as failed:
            assert name.endswith("n is 1")
            assert failed.current == {"n": 7, WRITE_ID: "other"}

    asyncio.run(scenario())


def test_a_lost_put_if_absent_whose_row_is_another_s_has_failed() -> None:
    async def scenario() -> None:
        rows = FaultyRows(["lost before"])

        async def other_writer() -> None:
            await rows.rows.put_if("pk", "sk", {"n": 7}, (), "other")

        rows.between = other_writer
        with pytest.raises(ConditionFailed) as failed:
            await registry_on(rows).put_if("pk", "sk", ROW, RowAbsent())
        assert failed.value.current == {"n": 7, WRITE_ID: "other"}

    asyncio.run(scenario())


def test_a_delete_of_no_row_fails_unless_an_answer_was_lost() -> None:
    for faults, expected in (
        ([], "failed"),
        (["retryable", "throttled"], "failed"),
        (["lost before"], "done"),
    ):

        async def scenario(faults: list[Fault] = faults) -> str:  # type: ignore[assignment]
            return await verdict_of(registry_on(FaultyRows(faults)).delete_if("pk", "sk"))

        assert asyncio.run(scenario()) == expected


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("retryable", Retryable), ("throttled", Throttled), ("lost before", OutcomeUnknown)],
)
def test_when_time_is_up_the_last_error_is_raised(
    fault: Fault, expected: type[LogstoreError]
) -> None:
    clock = StillClock()
    registry = registry_on(FaultyRows([fault] * 1000), clock)
    calls: list[Coroutine[Any, Any, object]] = [
        registry.get("pk", "sk"),
        registry.query("pk"),
        registry.put_if("pk", "sk", ROW),
    ]
    for call in calls:
        with pytest.raises(expected):
            asyncio.run(call)
    assert clock.passed_s <= 3 * 60


def test_a_lost_answer_stays_unknown_when_only_refusals_follow() -> None:
    faults: list[Fault] = ["throttled", "lost before", *["throttled"] * 1000]  # type: ignore[list-item]
    with pytest.raises(OutcomeUnknown):
        asyncio.run(registry_on(FaultyRows(faults)).put_if("pk", "sk", ROW))


def test_waits_double_up_to_the_longest_and_half_of_each_is_jitter() -> None:
    clock = StillClock()
    with pytest.raises(Retryable):
        asyncio.run(registry_on(FaultyRows(["retryable"] * 1000), clock).get("pk", "sk"))
    longest = [min(2.0, 0.1 * 2**n) for n in range(len(clock.sleeps_s))]
    assert len(longest) > 30
    for slept, most in zip(clock.sleeps_s, longest, strict=True):
        assert most / 2 <= slept <= most
    assert len({round(slept, 6) for slept in clock.sleeps_s}) > 25


@pytest.mark.parametrize("error", [Refused, Corrupt, Invalid])
def test_what_a_retry_cannot_help_is_raised_at_once(error: type[LogstoreError]) -> None:
    class Refusing(FaultyRows):
        async def _attempt(self, call: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
            raise error("no")

    rows = Refusing()
    clock = StillClock()
    with pytest.raises(error):
        asyncio.run(registry_on(rows, clock).put_if("pk", "sk", ROW))
    assert (len(rows.write_ids), clock.sleeps_s) == (1, [])


@pytest.mark.parametrize("rows_there", [0, 1, 999, 1000, 1001, 2500])
def test_a_query_goes_through_all_pages(rows_there: int) -> None:
    async def scenario() -> None:
        rows = FaultyRows(["retryable", "none", "throttled"])
        for number in range(rows_there):
            await rows.rows.put_if("pk", f"n/{number:05}", {"n": number}, (), "w")
        await rows.rows.put_if("pk", "o", {}, (), "w")
        found = await registry_on(rows).query("pk", "n/")
        assert [row["n"] for _, row in found] == list(range(rows_there))

    asyncio.run(scenario())


def test_a_full_disk_is_said_after_half_a_second_and_reads_go_on() -> None:
    class FullRows(FaultyRows):
        async def put_if(
            self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
        ) -> None:
            self.write_ids.append(write_id)
            raise NoRoom("no room: free some")

    async def scenario() -> None:
        rows, clock = FullRows(), StillClock()
        registry = RetryingRegistry(rows, lambda: "id", clock, Random(1))
        with pytest.raises(NoRoom):
            await registry.put_if("pk", "sk", ROW)
        assert len(rows.write_ids) > 1
        assert NO_ROOM_S <= clock.passed_s < NO_ROOM_S + 1
        assert await registry.get("pk", "sk") is None

    asyncio.run(scenario())
