"""Calls made at the same moment: a row store may carry them out together, each has its own verdict.

A takeover changes up to a thousand rows so. What one call did, or why it failed, must not depend on
which others were made with it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from logstore.errors import ConditionFailed, Invalid, LogstoreError
from logstore.ports.registry import WRITE_ID, Comparison, RowAbsent, RowStore

MANY = 300

_Answer = TypeVar("_Answer")


async def together(calls: Sequence[Coroutine[Any, Any, _Answer]]) -> list[_Answer]:
    """Their answers, of calls begun in one turn of the loop."""
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(call) for call in calls]
    return [task.result() for task in begun]


async def verdict(call: Awaitable[None]) -> LogstoreError | None:
    """How a write ended: None, or what it raised."""
    try:
        await call
    except (ConditionFailed, Invalid) as error:
        return error
    return None


def names(count: int) -> list[str]:
    return [f"{number:04}" for number in range(count)]


@pytest.mark.slow
def test_three_hundred_writes_and_reads_at_once_are_all_done(asynchronous_rows: RowStore) -> None:
    rows = asynchronous_rows

    async def scenario() -> None:
        await together(
            [rows.put_if("pk", sk, {"n": 1}, [RowAbsent()], f"p{sk}") for sk in names(MANY)]
        )
        conditions = [Comparison("n", "=", 1)]
        await together(
            [
                rows.update_if("pk", sk, {"n": 2, "of": sk}, conditions, f"u{sk}")
                for sk in names(MANY)
            ]
        )
        found = await together([rows.get("pk", sk) for sk in names(MANY)])
        assert found == [{"n": 2, "of": sk, WRITE_ID: f"u{sk}"} for sk in names(MANY)]
        await together(
            [rows.delete_if("pk", sk, [Comparison("n", "=", 2)], "d") for sk in names(MANY)]
        )
        assert await together([rows.get("pk", sk) for sk in names(MANY)]) == [None] * MANY
        await rows.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("failing", [1, 7, 29, 30])
def test_a_condition_that_fails_fails_alone(asynchronous_rows: RowStore, failing: int) -> None:
    """Of thirty calls so many find a row that is not as they thought."""
    rows = asynchronous_rows

    async def scenario() -> None:
        changed = set(random.Random(failing).sample(names(30), failing))
        await together(
            [
                rows.put_if("pk", sk, {"n": 7 if sk in changed else 1}, [], f"p{sk}")
                for sk in names(30)
            ]
        )
        conditions = [Comparison("n", "=", 1)]
        ended = await together(
            [verdict(rows.update_if("pk", sk, {"n": 2}, conditions, f"u{sk}")) for sk in names(30)]
        )
        found = await together([rows.get("pk", sk) for sk in names(30)])
        for sk, end, row in zip(names(30), ended, found, strict=True):
            if sk in changed:
                assert isinstance(end, ConditionFailed)
                assert end.current == row == {"n": 7, WRITE_ID: f"p{sk}"}
            else:
                assert end is None
                assert row == {"n": 2, WRITE_ID: f"u{sk}"}
        await rows.close()

    asyncio.run(scenario())


def test_calls_of_every_kind_keep_their_own_verdicts(asynchronous_rows: RowStore) -> None:
    rows = asynchronous_rows

    async def scenario() -> None:
        for sk in ("there", "kept", "goes", "grows"):
            await rows.put_if("pk", sk, {"n": 1, "data": b"\x00\xff"}, [], "first")
        await rows.update_if("pk", "grows", {"big": "x" * 300_000}, [], "first")
        one, other = Comparison("n", "=", 1), Comparison("n", "=", 2)
        ended = await together(
            [
                verdict(rows.put_if("pk", "new", {"n": 1}, [RowAbsent()], "w0")),
                verdict(rows.put_if("pk", "there", {"n": 5}, [RowAbsent()], "w1")),
                verdict(rows.update_if("pk", "kept", {"n": 5}, [other], "w2")),
                verdict(rows.update_if("pk", "missing", {"n": 5}, [], "w3")),
                verdict(rows.update_if("pk", "grows", {"more": "x" * 300_000}, [one], "w4")),
                verdict(rows.delete_if("pk", "goes", [one], "w5")),
                verdict(rows.delete_if("pk", "absent", [], "w6")),
                verdict(rows.put_if("pk", "free", {"data": b"\x01"}, [], "w7")),
            ]
        )
        assert [type(end) for end in ended] == [
            type(None),
            ConditionFailed,
            ConditionFailed,
            ConditionFailed,
            Invalid,
            type(None),
            ConditionFailed,
            type(None),
        ]
        as_it_was = {"n": 1, "data": b"\x00\xff", WRITE_ID: "first"}
        shown = [end.current for end in ended if isinstance(end, ConditionFailed)]
        assert shown == [as_it_was, as_it_was, None, None]
        left = {sk: row for sk, row in await rows.query("pk") if sk != "grows"}
        assert left == {
            "free": {"data": b"\x01", WRITE_ID: "w7"},
            "kept": as_it_was,
            "new": {"n": 1, WRITE_ID: "w0"},
            "there": as_it_was,
        }
        assert (await rows.get("pk", "grows") or {})[WRITE_ID] == "first"
        await rows.close()

    asyncio.run(scenario())


@pytest.mark.slow
def test_of_calls_of_one_row_each_is_decided_on_the_row_as_it_stands(
    asynchronous_rows: RowStore,
) -> None:
    """Ten draw a number from each of five rows, all in one turn, until everybody has one."""
    rows = asynchronous_rows

    async def draw(sk: str, write_id: str) -> int:
        while True:
            row = await rows.get("pk", sk)
            assert row is not None
            value = row["n"]
            assert isinstance(value, int)
            change = rows.update_if(
                "pk", sk, {"n": value + 1}, [Comparison("n", "=", value)], write_id
            )
            if await verdict(change) is None:
                return value

    async def scenario() -> None:
        await together([rows.put_if("pk", sk, {"n": 0}, [], "w") for sk in names(5)])
        drawn = await together(
            [draw(sk, f"{sk}/{number}") for number in range(10) for sk in names(5)]
        )
        assert Counter(drawn) == dict.fromkeys(range(10), 5)
        await rows.close()

    asyncio.run(scenario())


def test_writes_of_one_row_beside_others_are_done_in_their_order(
    asynchronous_rows: RowStore,
) -> None:
    """Steps that each need the one before it, made in one turn with writes of other rows."""
    rows = asynchronous_rows

    async def scenario() -> None:
        await together([rows.put_if("pk", sk, {"n": 0}, [], "w") for sk in names(10)])
        steps = [
            verdict(
                rows.update_if("pk", sk, {"n": step + 1}, [Comparison("n", "=", step)], f"w{step}")
            )
            for step in range(3)
            for sk in (names(10) if step == 0 else names(2))
        ]
        assert await together(steps) == [None] * len(steps)
        found = await together([rows.get("pk", sk) for sk in names(10)])
        assert [row and row["n"] for row in found] == [3, 3] + [1] * 8
        await rows.close()

    asyncio.run(scenario())


def test_reads_of_one_row_share_no_more_than_what_it_says(asynchronous_rows: RowStore) -> None:
    rows = asynchronous_rows

    async def scenario() -> None:
        await rows.put_if("pk", "a", {"n": 1}, [], "w")
        found = await together([rows.get("pk", sk) for sk in ("a", "b", "a", "b", "a")])
        assert found == [{"n": 1, WRITE_ID: "w"}, None] * 2 + [{"n": 1, WRITE_ID: "w"}]
        await rows.close()

    asyncio.run(scenario())
