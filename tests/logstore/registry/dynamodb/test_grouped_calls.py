"""Calls made together on DynamoDB: how many requests they become, and what each call learns."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from logstore.errors import (
    ConditionFailed,
    Denied,
    Invalid,
    LogstoreError,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.ports.registry import RowAbsent
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb.rows import DynamoRows
from logstore.registry.dynamodb_json.errors import TransactionCancelled
from logstore.registry.dynamodb_json.grouping import READS_MAX, WRITES_MAX, WRITES_MIN
from tests.servers.locked_moto import locked_moto
from tests.servers.tables import dynamo_client

DEADLINE_S = 30.0

_Answer = TypeVar("_Answer")

Answer = Callable[[Mapping[str, Any]], None]
"""Raises what the service would answer to a request, or lets it pass."""


class WatchedClient(DynamoClient):
    """Counts requests, and has some answered otherwise than the service behind would."""

    def __init__(self, client: DynamoClient) -> None:
        super().__init__(client.url)
        self.asked: Counter[str] = Counter()
        self.answers: dict[str, Answer] = {}

    def call_many(self, operation: str, *, writes: bool, **request: Any) -> Mapping[str, Any]:
        self.asked[operation] += 1
        if operation in self.answers:
            self.answers[operation](request)
        return super().call_many(operation, writes=writes, **request)


@pytest.fixture
def client() -> Iterator[WatchedClient]:
    with dynamo_client(locked_moto()) as made:
        yield WatchedClient(made)


def play(client: DynamoClient, scenario: Callable[[DynamoRows], Awaitable[None]]) -> None:
    async def run() -> None:
        rows = DynamoRows(client, timeout_s=60.0)  # beside other tests, moto may be slow
        try:
            await scenario(rows)
        finally:
            await rows.close()

    asyncio.run(run())


async def together(calls: Sequence[Coroutine[Any, Any, _Answer]]) -> list[_Answer | LogstoreError]:
    async def outcome(call: Awaitable[_Answer]) -> _Answer | LogstoreError:
        try:
            return await call
        except LogstoreError as error:
            return error

    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(outcome(call)) for call in calls]
    return [task.result() for task in begun]


def puts(rows: DynamoRows, count: int) -> list[Coroutine[Any, Any, None]]:
    return [rows.put_if("pk", f"{n:04}", {"n": n}, [RowAbsent()], f"w{n}") for n in range(count)]


def gets(rows: DynamoRows, count: int) -> list[Coroutine[Any, Any, Any]]:
    return [rows.get("pk", f"{n:04}") for n in range(count)]


def says(error: LogstoreError, *, times: int = 1) -> Answer:
    """`error`, for the first so many requests."""
    left = [error] * times

    def answer(_: Mapping[str, Any]) -> None:
        if left:
            raise left.pop()

    return answer


@pytest.mark.slow
def test_calls_of_one_turn_become_few_requests(client: WatchedClient) -> None:
    async def scenario(rows: DynamoRows) -> None:
        assert await together(puts(rows, 2 * WRITES_MAX)) == [None] * 2 * WRITES_MAX
        assert client.asked == {"transact_write_items": 2}
        client.asked.clear()
        await together(gets(rows, READS_MAX + 1))
        assert client.asked == {"batch_get_item": 1, "get_item": 1}

    play(client, scenario)


@pytest.mark.slow
def test_few_writes_are_not_made_dearer_than_they_were(client: WatchedClient) -> None:
    """DynamoDB bills a write in a transaction twice."""

    async def scenario(rows: DynamoRows) -> None:
        await rows.put_if("pk", "sk", {}, [], "w")
        await rows.get("pk", "sk")
        assert client.asked == {"put_item": 1, "get_item": 1}
        await together(puts(rows, WRITES_MIN - 1))
        assert client.asked == {"put_item": WRITES_MIN, "get_item": 1}

    play(client, scenario)


def test_a_transaction_without_those_whose_condition_failed_is_tried_once_more(
    client: WatchedClient,
) -> None:
    async def scenario(rows: DynamoRows) -> None:
        await rows.put_if("pk", "0003", {}, [], "another")
        client.asked.clear()
        ended = await together(puts(rows, 10))
        assert client.asked == {"transact_write_items": 2}
        assert [n for n, end in enumerate(ended) if end is not None] == [3]
        assert isinstance(ended[3], ConditionFailed)
        assert ended[3].current == {"wid": "another"}

    play(client, scenario)


@pytest.mark.slow
def test_what_is_cancelled_twice_goes_alone(client: WatchedClient) -> None:
    """Another process makes another row each time, between our two transactions."""

    async def scenario(rows: DynamoRows) -> None:
        blocking = rows.blocking()
        sort_keys = iter(("0003", "0005"))

        def another_was_faster(_: Mapping[str, Any]) -> None:
            blocking.put_if("pk", next(sort_keys), {}, [], "another")

        client.answers["transact_write_items"] = another_was_faster
        ended = await together(puts(rows, 10))
        assert client.asked == {"transact_write_items": 2, "put_item": 2 + 8}
        assert [n for n, end in enumerate(ended) if end is not None] == [3, 5]
        assert await together(gets(rows, 10)) == [
            {"wid": "another"} if n in (3, 5) else {"n": n, "wid": f"w{n}"} for n in range(10)
        ]

    play(client, scenario)


def test_a_write_that_met_another_transaction_goes_alone(client: WatchedClient) -> None:
    reasons = [{"Code": "TransactionConflict"}] + [{"Code": "None"}] * 9

    async def scenario(rows: DynamoRows) -> None:
        client.answers["transact_write_items"] = says(TransactionCancelled("busy", reasons))
        assert await together(puts(rows, 10)) == [None] * 10
        assert client.asked == {"transact_write_items": 2, "put_item": 1}

    play(client, scenario)


def test_what_is_left_of_a_transaction_goes_alone_where_it_is_too_little(
    client: WatchedClient,
) -> None:
    """One of those to go on has lost its caller: then these are fewer than a transaction pays."""
    reasons = [{"Code": "ConditionalCheckFailed"}] + [{"Code": "None"}] * WRITES_MIN

    async def scenario(rows: DynamoRows) -> None:
        loop = asyncio.get_running_loop()
        begun, released = asyncio.Event(), threading.Event()

        def cancelled_late(_: Mapping[str, Any]) -> None:
            loop.call_soon_threadsafe(begun.set)
            assert released.wait(DEADLINE_S)
            raise TransactionCancelled("no", reasons)

        client.answers["transact_write_items"] = cancelled_late
        calls = [loop.create_task(call) for call in puts(rows, len(reasons))]
        await begun.wait()
        calls[-1].cancel()
        await asyncio.wait([calls[-1]])
        released.set()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end) for end in ended[:1]] == [ConditionFailed]
        assert ended[1:-1] == [None] * (WRITES_MIN - 1)
        assert client.asked == {"transact_write_items": 1, "put_item": WRITES_MIN - 1}

    play(client, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("refusal", [Invalid("no"), Denied("no"), TransactionCancelled("why?")])
def test_writes_whose_transaction_is_refused_go_alone(
    client: WatchedClient, refusal: LogstoreError
) -> None:
    async def scenario(rows: DynamoRows) -> None:
        client.answers["transact_write_items"] = says(refusal)
        assert await together(puts(rows, 10)) == [None] * 10
        assert client.asked == {"transact_write_items": 1, "put_item": 10}

    play(client, scenario)


@pytest.mark.parametrize("error", [OutcomeUnknown("?"), Retryable("busy"), Throttled("slow")])
def test_the_result_of_a_transaction_goes_to_every_call_in_it(
    client: WatchedClient, error: LogstoreError
) -> None:
    async def scenario(rows: DynamoRows) -> None:
        client.answers["transact_write_items"] = says(error)
        ended = await together(puts(rows, 10))
        assert [type(end) for end in ended] == [type(error)] * 10
        assert len(set(map(id, ended))) == 10  # each has a traceback of its own
        assert client.asked == {"transact_write_items": 1}

    play(client, scenario)


@pytest.mark.slow
def test_a_read_that_was_not_processed_is_asked_again(client: WatchedClient) -> None:
    """A batch answers at most 16 MiB."""

    async def scenario(rows: DynamoRows) -> None:
        big = {"big": b"x" * 390_000}
        await together([rows.put_if("pk", f"{n:04}", big, [], "w") for n in range(50)])
        client.asked.clear()
        found = await together(gets(rows, 51))
        assert found == [{**big, "wid": "w"}] * 50 + [None]
        assert client.asked["batch_get_item"] == 1
        assert client.asked["get_item"] >= 1

    play(client, scenario)


def test_big_writes_are_spread_over_more_transactions(client: WatchedClient) -> None:
    async def scenario(rows: DynamoRows) -> None:
        big = {"big": b"x" * 200_000}
        ended = await together(
            [rows.put_if("pk", f"{n:04}", big, [], "w") for n in range(WRITES_MAX)]
        )
        assert ended == [None] * WRITES_MAX
        assert client.asked == {"transact_write_items": WRITES_MAX // 5}

    play(client, scenario)


def test_where_the_policy_lacks_batches_rows_are_read_one_by_one(client: WatchedClient) -> None:
    async def scenario(rows: DynamoRows) -> None:
        await together(puts(rows, 10))
        client.asked.clear()
        client.answers["batch_get_item"] = says(Denied("no"), times=1000)
        for _ in range(3):
            found = await together(gets(rows, 10))
            assert found == [{"n": n, "wid": f"w{n}"} for n in range(10)]
        assert client.asked == {"batch_get_item": 1, "get_item": 30}

    play(client, scenario)


def test_where_nothing_may_be_read_batches_are_tried_again_later(client: WatchedClient) -> None:
    async def scenario(rows: DynamoRows) -> None:
        client.answers["batch_get_item"] = says(Denied("no"))
        client.answers["get_item"] = says(Denied("no"), times=10)
        ended = await together(gets(rows, 10))
        assert [type(end) for end in ended] == [Denied] * 10
        assert await together(gets(rows, 10)) == [None] * 10
        assert client.asked == {"batch_get_item": 2, "get_item": 10}

    play(client, scenario)


def test_a_cancelled_call_of_a_group_ends_in_the_background(client: WatchedClient) -> None:
    async def scenario(rows: DynamoRows) -> None:
        async with asyncio.TaskGroup() as tasks:
            writes = [tasks.create_task(call) for call in puts(rows, 10)]
            loop = asyncio.get_running_loop()
            begun = asyncio.Event()

            def under_way(_: Mapping[str, Any]) -> None:
                loop.call_soon_threadsafe(begun.set)

            client.answers["transact_write_items"] = under_way
            await begun.wait()
            writes[4].cancel()
        assert writes[4].cancelled()
        assert client.asked == {"transact_write_items": 1}
        assert await rows.get("pk", "0004") == {"n": 4, "wid": "w4"}

    play(client, scenario)


def test_a_call_cancelled_before_its_turn_is_not_sent(client: WatchedClient) -> None:
    async def scenario() -> None:
        rows = DynamoRows(client, threads=1)
        loop = asyncio.get_running_loop()
        begun, released = asyncio.Event(), threading.Event()

        def hold(_: Mapping[str, Any]) -> None:
            loop.call_soon_threadsafe(begun.set)
            assert released.wait(DEADLINE_S)

        client.answers["put_item"] = hold
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(rows.put_if("pk", "first", {}, [], "w"))
            await begun.wait()
            writes = [tasks.create_task(call) for call in puts(rows, 10)]
            await asyncio.wait(writes, timeout=0)  # they are made
            writes[4].cancel()
            await asyncio.wait([writes[4]])
            released.set()
        assert client.asked == {"put_item": 1, "transact_write_items": 1}
        assert await rows.get("pk", "0004") is None
        assert await rows.get("pk", "0005") is not None
        await rows.close()

    asyncio.run(scenario())


def test_closing_waits_for_groups_under_way_and_for_what_has_not_begun(
    client: WatchedClient,
) -> None:
    async def scenario() -> None:
        rows = DynamoRows(client, threads=1)
        async with asyncio.TaskGroup() as tasks:
            writes = [tasks.create_task(call) for call in puts(rows, WRITES_MAX + 10)]
            tasks.create_task(rows.close())
        assert [write.exception() for write in writes] == [None] * (WRITES_MAX + 10)

    asyncio.run(scenario())
