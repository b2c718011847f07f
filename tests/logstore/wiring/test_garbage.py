"""Requests to store and registry that fail leave no cycle behind: none waits for the collector.

A follower asks the store for a segment that is not there yet, four times a second and chain. What
the collector has frozen when it becomes garbage (`broker.process.collector`) is found after hours,
and with an error its frames stay, and what they hold: sockets, buffers, answers.
"""

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest

import logstore
from logstore.errors import LogstoreError
from logstore.objects.hedge_policy import HedgePolicy, HedgeSettings
from logstore.objects.hedging import HedgingStore
from logstore.objects.metered import MeteredStore, StoreCounts
from logstore.objects.s3 import S3Store
from logstore.objects.s3_options import S3Options
from logstore.objects.timed import TimedStore
from logstore.ports.clock import SystemClock
from logstore.ports.registry import Comparison
from logstore.protocol.steps import GetRange, GetRow, Request, Steps, UpdateRow, retried
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb.rows import DynamoRows
from logstore.registry.dynamodb_json.url import TableUrl
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.timed import RegistryUnits, TimedRows
from logstore.request_times import RequestTimes
from logstore.retry import RetryDelays
from logstore.runners.step_runner import StepRunner
from tests.garbage import garbage, uncollected  # noqa: F401 - a fixture
from tests.servers.buckets import new_location
from tests.servers.locked_moto import locked_moto
from tests.servers.proxied import Proxied, proxied
from tests.servers.tables import dynamo_client

pytestmark = pytest.mark.usefixtures("uncollected")

PACKAGE = Path(logstore.__file__).parent
ONCE = RetryDelays(first_s=0.001, longest_s=0.001, deadline_s=0.000_1)
ABSENT = GetRange("chains/00/00000000000000000001/00000000000000000007", 0, 112)
REFUSED = UpdateRow("pk", "sk", {"n": 2}, (Comparison("n", "=", 1),))

Act = Callable[[StepRunner], Awaitable[object]]


def left() -> list[str]:
    """Errors of ours, and frames of our code, that only the collector would free.

    The servers run in this process as well, and leave what they leave.
    """
    found = garbage()
    errors = [type(one).__name__ for one in found if isinstance(one, LogstoreError)]
    codes = [one.f_code for one in found if isinstance(one, FrameType)]
    return errors + [
        code.co_qualname for code in codes if PACKAGE in Path(code.co_filename).parents
    ]


@asynccontextmanager
async def runner(way: Proxied, table: TableUrl, clock: SystemClock) -> AsyncIterator[StepRunner]:
    """On S3 and DynamoDB behind a fault proxy."""
    options = S3Options.of({"storage.endpoint": way.endpoint})
    opened = S3Store(new_location(locked_moto()), options, clock)
    store = MeteredStore(TimedStore(opened, RequestTimes(), clock), StoreCounts())
    hedging = HedgingStore(store, HedgePolicy(HedgeSettings()), clock)
    there = TableUrl(table.table, table.region, way.endpoint)
    client = DynamoClient(there, read_timeout_s=0.3)
    rows = TimedRows(DynamoRows(client), RequestTimes(), RegistryUnits(), clock)
    rng = random.Random(1)
    registry = RetryingRegistry(rows, lambda: f"{rng.getrandbits(64):x}", clock, rng, ONCE)
    try:
        yield StepRunner(hedging, registry, clock, rng, lambda: bytes(16))
    finally:
        await registry.close()
        await hedging.close()


def caught(request: Request) -> Act:
    """The error ends in the steps that asked."""

    def steps() -> Steps[None]:
        with suppress(LogstoreError):
            yield from retried(request, attempts_max=1)

    return lambda runner: runner.run(steps())


def raised(request: Request) -> Act:
    """The error goes through the runner, to its caller."""

    async def act(runner: StepRunner) -> None:
        with suppress(LogstoreError):
            await runner.run(retried(request, attempts_max=1))

    return act


async def read_a_row(runner: StepRunner) -> None:
    """As the lease is renewed: without steps."""
    with suppress(LogstoreError):
        await runner.registry.get("pk", "sk")


async def change_rows_together(runner: StepRunner) -> None:
    changes = (runner.registry.update_if("pk", str(n), {"n": 2}) for n in range(4))
    await asyncio.gather(*changes, return_exceptions=True)


@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (caught(GetRow("pk", "sk")), ""),
        (caught(ABSENT), ""),
        (raised(ABSENT), ""),
        (caught(ABSENT), "500 methods=GET"),
        (caught(REFUSED), ""),
        (raised(REFUSED), ""),
        (caught(GetRow("pk", "sk")), "500 path=GetItem"),
        (raised(GetRow("pk", "sk")), "hang path=GetItem"),
        (read_a_row, "reset path=GetItem"),
        (raised(REFUSED), "applied-hang path=UpdateItem"),
        (change_rows_together, "reset path=TransactWriteItems"),
    ],
)
def test_a_request_that_fails_leaves_no_cycle(act: Act, fault: str) -> None:
    async def scenario(way: Proxied, table: TableUrl) -> list[str]:
        async with runner(way, table, SystemClock()) as opened:
            way.play(*([fault] if fault else []))
            await act(opened)  # what is made once is made
            gc.collect()
            await act(opened)
            return left()

    with dynamo_client(locked_moto()) as client, proxied(locked_moto()) as way:
        assert asyncio.run(scenario(way, client.url)) == []
