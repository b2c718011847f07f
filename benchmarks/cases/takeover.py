"""Taking over all partitions of a dead broker, from its seal on: rows, then leading them.

Dead broker, sealer and successor are one process, objects are in memory: measured is our own
work and the registry. --dynamodb adds DynamoDB Local, AWS's emulator, which itself is slow;
--partitions takes its largest number.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.contenders import Contender, Contenders
from benchmarks.options import Options
from logstore.epoch.log import Log, LogSettings
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.objects.metered import StoreCounts
from logstore.ports.clock import SystemClock
from logstore.ports.registry import RowStore
from logstore.protocol.chain.identity import ensure_identity
from logstore.protocol.chain.seal import seal_chain
from logstore.protocol.leading.start import BrokerInfo
from logstore.protocol.leading.takeover import Successor, take_over
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.sqlite import SqliteRows
from logstore.runners.step_runner import StepRunner
from logstore.stores.location import DirectoryLocation
from logstore.wiring.open import OpenLog

OpenRows = Callable[[], AbstractContextManager[RowStore]]

DYING, SUCCESSOR = 1, 2
WAIT_S = 120.0
TOPIC = "orders"


def contenders(options: Options) -> Contenders:
    partitions = max(options.partitions)
    found: dict[str, Contender] = {
        "memory": partial(_run, _memory, partitions),
        "sqlite": partial(_run, _sqlite, partitions),
    }
    if options.has_dynamodb:
        found["dynamodb local"] = partial(_run, _dynamodb, partitions)
    return found


@contextmanager
def _memory() -> Iterator[RowStore]:
    yield MemoryRows()


@contextmanager
def _sqlite() -> Iterator[RowStore]:
    with tempfile.TemporaryDirectory(prefix="logstore-bench-") as directory:
        yield SqliteRows(Path(directory) / "registry.db")


@contextmanager
def _dynamodb() -> Iterator[RowStore]:
    from logstore.registry.dynamodb.rows import DynamoRows
    from tests.servers.dynamodb_local import dynamodb_local, why_no_dynamodb_local
    from tests.servers.tables import dynamo_client

    if reason := why_no_dynamodb_local():
        raise SystemExit(reason)
    with (
        tempfile.TemporaryDirectory(prefix="logstore-bench-") as directory,
        dynamodb_local(Path(directory)) as endpoint,
        dynamo_client(endpoint) as client,
    ):
        yield DynamoRows(client)


def _run(open_rows: OpenRows, partitions: int) -> dict[str, float]:
    with open_rows() as rows:
        return asyncio.run(_measure(rows, partitions))


async def _measure(rows: RowStore, partitions: int) -> dict[str, float]:
    opened = await _open(rows)
    run, cluster_id = opened.runner.run, opened.identity.cluster_id
    try:
        async with _life(opened, SUCCESSOR) as successor:
            async with _life(opened, DYING) as dying:
                epoch = dying.epoch
                await _fill(dying, partitions)
                await _until(lambda: TOPIC in successor.topics)
            topic = successor.topics[TOPIC]
            sealed = await run(seal_chain(cluster_id, epoch, SUCCESSOR))
            began, began_cpu = time.perf_counter(), time.process_time()
            to_successor = Successor(SUCCESSOR, successor.epoch)
            taken = await run(take_over(cluster_id, epoch, SUCCESSOR, lambda *_: to_successor))
            rows_s = time.perf_counter() - began
            await successor.lead_recovered(taken)
            await _until(lambda: len(topic.leaders) == partitions)
            led_s = time.perf_counter() - began
            cpu_s = time.process_time() - began_cpu
    finally:
        await opened.close()
    assert len(taken) == partitions
    return {
        "partitions": partitions,
        "segments read": sealed.seal,
        "rows taken s": rows_s,
        "all led s": led_s,
        "CPU s": cpu_s,
    }


async def _open(rows: RowStore) -> OpenLog:
    clock, rng = SystemClock(), random.Random(1)
    runner = StepRunner(
        MemoryStore(MemoryObjects(clock)),
        RetryingRegistry(rows, lambda: f"{rng.getrandbits(64):016x}", clock, rng),
        clock,
        rng,
        lambda: rng.randbytes(16),
    )
    identity = await runner.run(ensure_identity("memory"))
    return OpenLog(DirectoryLocation(Path("/memory")), runner, identity, StoreCounts())


@asynccontextmanager
async def _life(opened: OpenLog, broker: int) -> AsyncIterator[Log]:
    """A broker, without server or controller, that drops dead at the end."""
    try:
        async with asyncio.TaskGroup() as tasks:
            me = BrokerInfo(broker, "localhost", 9091 + broker, "", f"the lock of {broker}")
            yield await Log.start(opened, me, LogSettings(), tasks)
            raise _Dead
    except* _Dead:
        pass


async def _fill(log: Log, partitions: int) -> None:
    """A topic with one committed batch in each partition."""
    topic = await log.create_topic(TOPIC, partitions, {})
    data = memoryview(encode_batch([Record(0, 1_700_000_000_000, None, b"x" * 100)]))
    for leader in topic.leaders.values():
        leader.append(data, check_batch(data, 0, len(data)))
    log.writer.flush()
    await _until(lambda: all(leader.high_watermark == 1 for leader in topic.leaders.values()))


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - nothing tells when a partition is led
            await asyncio.sleep(0.001)


class _Dead(Exception):
    """Ends a broker where it stands."""
