"""The retrying registry on DynamoDB, behind a proxy that loses answers: each write counts once."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeVar

import pytest

from logstore.errors import ConditionFailed, OutcomeUnknown
from logstore.ports.clock import SystemClock
from logstore.ports.registry import Comparison, Registry, RowAbsent
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb.rows import BlockingDynamoRows, DynamoRows
from logstore.registry.dynamodb_json.url import TableUrl
from logstore.registry.retrying import RetryingRegistry
from logstore.retry import RetryDelays
from logstore.testing.fault_plan import Fault, FaultPlan, FaultRule
from logstore.testing.fault_proxy import FaultProxy
from tests.servers.locked_moto import locked_moto
from tests.servers.tables import dynamo_client

pytestmark = pytest.mark.slow

DELAYS = RetryDelays(first_s=0.001, longest_s=0.01, deadline_s=15.0)
NOT_APPLIED: tuple[Fault, ...] = ("500", "503", "409", "reset", "hang")
SORT_KEYS = [f"{number:02}" for number in range(20)]
_Answer = TypeVar("_Answer")
LOST: tuple[Fault, ...] = ("applied-500", "applied-503", "applied-reset", "applied-hang")


class Proxied:
    """The registry as its user sees it, and the rows as they are."""

    def __init__(self, registry: Registry, rows: BlockingDynamoRows, proxy: FaultProxy) -> None:
        self.registry = registry
        self.rows = rows
        self.proxy = proxy

    def make(self, fault: Fault, operation: str, *, most: int = 1) -> None:
        """From now on, `fault` to the first `most` calls of `operation`."""
        self.proxy.set_plan(FaultPlan(1, (FaultRule(fault, path=operation, most=most),)))

    def values(self) -> dict[str, Any]:
        return {sk: row["n"] for sk, row in self.rows.query("pk")}

    def row(self) -> dict[str, Any]:
        return dict(self.rows.get("pk", "sk") or {})


@asynccontextmanager
async def proxied(delays: RetryDelays = DELAYS) -> AsyncIterator[Proxied]:
    with dynamo_client(locked_moto()) as direct:
        endpoint = direct.url.endpoint
        assert endpoint is not None
        host, _, port = endpoint.removeprefix("http://").partition(":")
        proxy = FaultProxy((host, int(port)), FaultPlan(1))
        url = TableUrl(direct.url.table, direct.url.region, f"http://{await proxy.start()}")
        rows = DynamoRows(DynamoClient(url, read_timeout_s=0.3))
        ids = count()
        registry = RetryingRegistry(
            rows, lambda: f"id-{next(ids)}", SystemClock(), random.Random(1), delays
        )
        try:
            yield Proxied(registry, BlockingDynamoRows(direct), proxy)
        finally:
            await registry.close()
            await proxy.close()


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*NOT_APPLIED, *LOST])
def test_a_write_whose_answer_is_lost_happens_once_and_is_known(fault: Fault) -> None:
    async def scenario() -> None:
        async with proxied() as at:
            at.make(fault, "PutItem")
            await at.registry.put_if("pk", "sk", {"n": 1}, RowAbsent())
            assert at.row()["n"] == 1
            at.make(fault, "UpdateItem")
            await at.registry.update_if("pk", "sk", {"n": 2}, Comparison("n", "=", 1))
            assert at.row()["n"] == 2
            at.make(fault, "DeleteItem")
            await at.registry.delete_if("pk", "sk", Comparison("n", "=", 2))
            assert at.row() == {}
            assert at.proxy.counts[f"POST {fault}"] == 1

    play(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("fault", NOT_APPLIED)
def test_a_read_is_repeated(fault: Fault) -> None:
    async def scenario() -> None:
        async with proxied() as at:
            at.rows.put_if("pk", "sk", {"n": 1}, [], "w")
            at.make(fault, "GetItem")
            assert await at.registry.get("pk", "sk") == {"n": 1, "wid": "w"}
            at.make(fault, "Query")
            assert [sk for sk, _ in await at.registry.query("pk")] == ["sk"]

    play(scenario())


def test_another_writer_in_between_is_not_mistaken_for_oneself() -> None:
    async def scenario() -> None:
        async with proxied() as at:
            at.rows.put_if("pk", "sk", {"n": 1}, [], "w")
            at.make("reset", "UpdateItem", most=0)
            async with asyncio.TaskGroup() as tasks:
                update = tasks.create_task(
                    _failure_of(
                        at.registry.update_if("pk", "sk", {"n": 2}, Comparison("n", "=", 1))
                    )
                )
                while at.proxy.counts["POST reset"] < 2:
                    await asyncio.wait([update], timeout=0.001)
                at.rows.put_if("pk", "sk", {"n": 7}, [], "another")
                at.proxy.set_plan(FaultPlan(1))
            failed = update.result()
            assert isinstance(failed, ConditionFailed)
            assert dict(failed.current or {}) == at.row() == {"n": 7, "wid": "another"}

    play(scenario())


def test_when_no_answer_ever_comes_the_outcome_is_unknown() -> None:
    async def scenario() -> None:
        async with proxied(RetryDelays(first_s=0.001, longest_s=0.01, deadline_s=0.1)) as at:
            only_first = FaultRule("applied-reset", path="PutItem", most=1)
            at.proxy.set_plan(FaultPlan(1, (only_first, FaultRule("reset"))))
            with pytest.raises(OutcomeUnknown):
                await at.registry.put_if("pk", "sk", {"n": 1}, RowAbsent())
            assert at.row() == {"n": 1, "wid": "id-0"}

    play(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*NOT_APPLIED, *LOST])
def test_writes_made_together_whose_answer_is_lost_happen_once_and_are_known(fault: Fault) -> None:
    """Each is sent again by itself, and finds its own id where the transaction was done."""

    async def scenario() -> None:
        async with proxied() as at:
            put, update, delete = at.registry.put_if, at.registry.update_if, at.registry.delete_if
            at.make(fault, "TransactWriteItems")
            await _all(put("pk", sk, {"n": 1}, RowAbsent()) for sk in SORT_KEYS)
            assert at.values() == dict.fromkeys(SORT_KEYS, 1)
            at.make(fault, "TransactWriteItems")
            await _all(update("pk", sk, {"n": 2}, Comparison("n", "=", 1)) for sk in SORT_KEYS)
            assert at.values() == dict.fromkeys(SORT_KEYS, 2)
            at.make(fault, "TransactWriteItems")
            await _all(delete("pk", sk, Comparison("n", "=", 2)) for sk in SORT_KEYS)
            assert at.values() == {}
            assert at.proxy.counts[f"POST {fault}"] == 1

    play(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("fault", LOST)
def test_when_a_transaction_is_lost_the_row_of_another_is_not_taken_for_ones_own(
    fault: Fault,
) -> None:
    """It is cancelled for one row, and the answer is lost."""

    async def scenario() -> None:
        async with proxied() as at:
            at.rows.put_if("pk", SORT_KEYS[5], {"n": 7}, [], "another")
            at.make(fault, "TransactWriteItems", most=2)
            ended = await _all(
                _failure_of(at.registry.put_if("pk", sk, {"n": 1}, RowAbsent())) for sk in SORT_KEYS
            )
            failed = [end for end in ended if end is not None]
            assert [end.current for end in failed] == [{"n": 7, "wid": "another"}]
            assert at.values() == {**dict.fromkeys(SORT_KEYS, 1), SORT_KEYS[5]: 7}

    play(scenario())


def test_a_transaction_that_lands_after_its_calls_were_repeated_changes_nothing() -> None:
    async def scenario() -> None:
        async with proxied() as at:
            await _all(at.registry.put_if("pk", sk, {"n": 1}) for sk in SORT_KEYS)
            late = FaultRule("late", path="TransactWriteItems", most=1, seconds=0.2)
            at.proxy.set_plan(FaultPlan(1, (late,)))
            await _all(
                at.registry.update_if("pk", sk, {"n": 2}, Comparison("n", "=", 1))
                for sk in SORT_KEYS
            )
            await _all(
                at.registry.update_if("pk", sk, {"n": 3}, Comparison("n", "=", 2))
                for sk in SORT_KEYS
            )
            while not any(name.startswith("late ") for name in at.proxy.counts):
                await at.registry.get("pk", "any")
            assert at.values() == dict.fromkeys(SORT_KEYS, 3)

    play(scenario())


@pytest.mark.parametrize("fault", NOT_APPLIED)
def test_reads_made_together_are_repeated(fault: Fault) -> None:
    async def scenario() -> None:
        async with proxied() as at:
            at.rows.put_if("pk", SORT_KEYS[0], {"n": 1}, [], "w")
            at.make(fault, "BatchGetItem")
            found = await _all(at.registry.get("pk", sk) for sk in SORT_KEYS)
            assert found == [{"n": 1, "wid": "w"}] + [None] * (len(SORT_KEYS) - 1)
            assert at.proxy.counts[f"POST {fault}"] == 1

    play(scenario())


async def _all(calls: Iterable[Coroutine[Any, Any, _Answer]]) -> list[_Answer]:
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(call) for call in calls]
    return [task.result() for task in begun]


async def _failure_of(call: Coroutine[Any, Any, None]) -> ConditionFailed | None:
    try:
        await call
    except ConditionFailed as failed:
        return failed
    return None
