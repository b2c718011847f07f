"""The DynamoDB registry on a server: pages, faces, closing, and what keeps it from its table."""

import asyncio
import multiprocessing
import os
import random
import socket
from collections.abc import Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from logstore.errors import (
    ConditionFailed,
    Denied,
    Invalid,
    LogstoreError,
    OutcomeUnknown,
    Refused,
    Retryable,
)
from logstore.ports.registry import Comparison, RowAbsent
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb.rows import BlockingDynamoRows, DynamoRows
from logstore.registry.dynamodb.table import ensure_table, key_spec
from logstore.registry.dynamodb_json.url import TableUrl
from tests.servers.locked_moto import REGION, aws_environment, locked_moto
from tests.servers.tables import dynamo_client, new_table_url


@pytest.fixture
def client() -> Iterator[DynamoClient]:
    with dynamo_client(locked_moto()) as client:
        yield client


@pytest.fixture
def rows(client: DynamoClient) -> BlockingDynamoRows:
    return BlockingDynamoRows(client)


@pytest.fixture
def silent() -> Iterator[str]:
    """An endpoint that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(32)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def no_server() -> str:
    """An endpoint where nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def impatient(endpoint: str) -> DynamoClient:
    url = TableUrl("logs", REGION, endpoint)
    return DynamoClient(url, connect_timeout_s=0.2, read_timeout_s=0.2)


def test_a_query_goes_on_past_what_the_service_puts_in_a_page(rows: BlockingDynamoRows) -> None:
    big = b"x" * 300_000  # a page of the service ends at 1 MiB
    for number in range(9):
        rows.put_if("pk", f"n/{number}", {"big": big}, [], "w")
    found = rows.query("pk", "n/")
    assert [sk for sk, _ in found] == [f"n/{number}" for number in range(9)]
    assert [sk for sk, _ in rows.query("pk", "n/", after="n/1", limit=6)] == [
        f"n/{number}" for number in range(2, 8)
    ]


def test_both_faces_are_of_the_same_rows(client: DynamoClient) -> None:
    async def scenario() -> None:
        rows = DynamoRows(client)
        blocking = rows.blocking()
        await rows.put_if("pk", "sk", {"n": 2}, [RowAbsent()], "w2")
        assert blocking.get("pk", "sk") == await rows.get("pk", "sk") == {"n": 2, "wid": "w2"}
        await rows.close()
        await rows.close()
        with pytest.raises(Invalid):
            await rows.get("pk", "sk")
        with pytest.raises(Invalid):
            blocking.get("pk", "sk")

    asyncio.run(scenario())


def test_more_calls_than_threads_wait_in_turn(client: DynamoClient) -> None:
    async def scenario() -> None:
        rows = DynamoRows(client, threads=2)
        async with asyncio.TaskGroup() as tasks:
            for number in range(20):
                tasks.create_task(rows.put_if("pk", f"{number:02}", {}, [], "w"))
        assert len(await rows.query("pk")) == 20
        await rows.close()

    asyncio.run(scenario())


def test_closing_waits_for_the_calls_under_way(client: DynamoClient) -> None:
    async def scenario() -> None:
        rows = DynamoRows(client, threads=1)
        async with asyncio.TaskGroup() as tasks:
            writes = [
                tasks.create_task(rows.put_if("pk", f"{number}", {}, [], "w"))
                for number in range(3)
            ]
            await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
            await rows.close()
        assert [write.exception() for write in writes] == [None] * 3

    asyncio.run(scenario())


def test_a_cancelled_call_leaves_the_rest_as_it_was(silent: str) -> None:
    async def scenario() -> None:
        rows = DynamoRows(impatient(silent), threads=1)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(rows.get("pk", "sk"))
            second = tasks.create_task(rows.get("pk", "sk"))
            await asyncio.wait([first], timeout=0.01)
            first.cancel()
            second.cancel()
        assert first.cancelled()
        assert second.cancelled()
        await rows.close()

    with aws_environment():
        asyncio.run(scenario())


def test_a_call_that_has_not_begun_in_time_did_not_happen(silent: str) -> None:
    async def scenario() -> None:
        rows = DynamoRows(impatient(silent), threads=1, timeout_s=0.05)
        async with asyncio.TaskGroup() as tasks:
            began = tasks.create_task(_error_of(rows.put_if("pk", "a", {}, [], "w")))
            waits = tasks.create_task(_error_of(rows.put_if("pk", "b", {}, [], "w")))
        assert type(began.result()) is OutcomeUnknown
        assert type(waits.result()) is Retryable
        await rows.close()

    with aws_environment():
        asyncio.run(scenario())


async def _error_of(call: Coroutine[Any, Any, None]) -> LogstoreError | None:
    try:
        await call
    except LogstoreError as error:
        return error
    return None


def test_a_server_that_never_answers_leaves_a_write_unknown(silent: str) -> None:
    with aws_environment(), closing(BlockingDynamoRows(impatient(silent))) as rows:
        with pytest.raises(OutcomeUnknown):
            rows.update_if("pk", "sk", {}, [], "w")
        with pytest.raises(Retryable):
            rows.get("pk", "sk")


def test_a_server_that_is_not_there_was_never_asked(no_server: str) -> None:
    with (
        aws_environment(),
        closing(BlockingDynamoRows(impatient(no_server))) as rows,
        pytest.raises(Retryable, match="cannot be reached"),
    ):
        rows.update_if("pk", "sk", {}, [], "w")


def test_a_table_that_does_not_exist_is_named() -> None:
    url = new_table_url(locked_moto())
    with (
        aws_environment(),
        closing(DynamoClient(url)) as client,
        pytest.raises(Refused, match=rf"table={url.table}.*logstore init"),
    ):
        BlockingDynamoRows(client).get("pk", "sk")


def test_without_credentials_it_is_denied_until_there_are_some(client: DynamoClient) -> None:
    with aws_environment(), closing(DynamoClient(client.url)) as poor:
        keys = {name: os.environ.pop(name) for name in list(os.environ) if "KEY" in name}
        with pytest.raises(Denied, match="credentials"):
            BlockingDynamoRows(poor).get("pk", "sk")
        os.environ.update(keys)
        assert BlockingDynamoRows(poor).get("pk", "sk") is None


def test_a_profile_is_taken_from_the_configuration(client: DynamoClient, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        f"[profile work]\nregion = {REGION}\naws_access_key_id = a\naws_secret_access_key = b\n"
    )
    url = TableUrl(client.url.table, None, client.url.endpoint)
    with aws_environment({"AWS_CONFIG_FILE": str(file)}):
        for name in [name for name in os.environ if "KEY" in name or "REGION" in name]:
            del os.environ[name]
        with closing(DynamoClient(url, profile="work")) as named:
            assert named.region() == REGION
            assert BlockingDynamoRows(named).get("pk", "sk") is None
        with (
            closing(DynamoClient(url, profile="none")) as unknown,
            pytest.raises(Refused, match=r"profile=none.*storage\.profile"),
        ):
            BlockingDynamoRows(unknown).get("pk", "sk")


def test_without_a_region_it_says_how_to_give_one() -> None:
    with aws_environment(), closing(DynamoClient(TableUrl("logs"))) as client:
        del os.environ["AWS_REGION"], os.environ["AWS_DEFAULT_REGION"]
        with pytest.raises(Refused, match="AWS_REGION"):
            BlockingDynamoRows(client).get("pk", "sk")


def test_after_a_fork_the_child_opens_its_own(client: DynamoClient) -> None:
    child = multiprocessing.get_context("fork").Process(target=_use_in_child, args=(client,))
    child.start()
    child.join(30)
    assert child.exitcode == 0


def _use_in_child(client: DynamoClient) -> None:
    with pytest.raises(Refused, match="fork"):
        BlockingDynamoRows(client).get("pk", "sk")


def test_a_row_that_an_update_makes_too_big_is_refused(rows: BlockingDynamoRows) -> None:
    rows.put_if("pk", "sk", {"a": "x" * 300_000}, [], "w1")
    with pytest.raises(Invalid):
        rows.update_if("pk", "sk", {"b": "x" * 200_000}, [], "w2")
    assert (rows.get("pk", "sk") or {})["wid"] == "w1"


def test_a_term_on_a_key_never_holds(rows: BlockingDynamoRows) -> None:
    rows.put_if("pk", "sk", {}, [], "w1")
    for attribute in ("pk", "sk", ""):
        with pytest.raises(ConditionFailed):
            rows.update_if("pk", "sk", {}, [Comparison(attribute, "=", "pk")], "w2")


class Naps:
    """Time for waits for a table: no test needs any to pass."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept_s.append(seconds)


def test_a_table_is_made_once_and_found_after_that() -> None:
    with aws_environment(), closing(DynamoClient(new_table_url(locked_moto()))) as client:
        assert ensure_table(client, random.Random(1), Naps())
        assert not ensure_table(client, random.Random(1), Naps())
        made = client.call("describe_table", writes=False)["Table"]
    assert key_spec().difference(made) is None
    assert made["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_a_table_with_other_keys_is_refused() -> None:
    with aws_environment(), closing(DynamoClient(new_table_url(locked_moto()))) as client:
        client.call(
            "create_table",
            writes=True,
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        with pytest.raises(Refused, match="found=id:N wanted=pk:S,sk:S"):
            ensure_table(client, random.Random(1), Naps())
