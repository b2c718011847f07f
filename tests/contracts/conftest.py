"""The implementations that each port's contract suite runs on.

A back end joins by one entry in `OBJECT_STORES`, `ROW_STORES` or `REGISTRIES`: its name, and a
function from an empty directory to a context with the store. All are driven through blocking calls
from threads; asynchronous ones run on a loop in a thread of its own.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from logstore.objects.directory import DirectoryStore
from logstore.objects.fault_draws import Faults, StoreFaults
from logstore.objects.faulty import FaultyBlockingStore, FaultyStore
from logstore.objects.hedge_policy import HedgePolicy, HedgeSettings
from logstore.objects.hedging import HedgingStore
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.objects.metered import MeteredBlockingStore, MeteredStore, StoreCounts
from logstore.objects.s3 import S3BlockingStore, S3Store
from logstore.objects.s3_options import S3Options
from logstore.objects.threaded import ThreadedStore
from logstore.objects.timed import TimedStore
from logstore.ports.clock import SystemClock
from logstore.ports.objects import BlockingObjectStore, Buffer, ObjectInfo, ObjectStore
from logstore.ports.registry import BlockingRowStore, Condition, Registry, Row, RowStore
from logstore.registry.dynamodb.rows import BlockingDynamoRows, DynamoRows
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.sqlite import SqliteRows
from logstore.registry.timed import RegistryUnits, TimedRows
from logstore.request_times import RequestTimes
from tests.servers.buckets import new_location
from tests.servers.dynamodb_local import dynamodb_local, why_no_dynamodb_local
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.ministack import ministack, why_no_ministack
from tests.servers.tables import dynamo_client
from tests.servers.versitygw import versitygw, why_no_versitygw

Answer = TypeVar("Answer")

DEADLINE_S = 30
RACERS = 8


class LoopThread:
    """An event loop in a thread, to which other threads hand coroutines."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def close(self) -> None:
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


@contextmanager
def loop_thread() -> Iterator[LoopThread]:
    loop = LoopThread()
    try:
        yield loop
    finally:
        loop.close()


class BlockingObjects:
    """An asynchronous store as a blocking one."""

    def __init__(self, store: ObjectStore, loop: LoopThread) -> None:
        self._store = store
        self._loop = loop

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self._loop.run(self._store.create(key, parts))

    def get(self, key: str) -> bytes:
        return bytes(self._loop.run(self._store.get(key)))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._loop.run(self._store.get_range(key, start, length))

    def delete(self, key: str) -> None:
        self._loop.run(self._store.delete(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        async def collect() -> Sequence[ObjectInfo]:
            return [info async for info in self._store.list(prefix)]

        return iter(self._loop.run(collect()))

    def close(self) -> None:
        self._loop.run(self._store.close())


class RowsRegistry:
    """A blocking row store called like a registry, with an id of its own for each write."""

    def __init__(self, rows: BlockingRowStore) -> None:
        self._rows = rows
        self._ids = count()

    def get(self, pk: str, sk: str) -> Row | None:
        return self._rows.get(pk, sk)

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        return self._rows.query(pk, prefix)

    def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        self._rows.put_if(pk, sk, row, conditions, f"write-{next(self._ids)}")

    def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        self._rows.update_if(pk, sk, sets, conditions, f"write-{next(self._ids)}")

    def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None:
        self._rows.delete_if(pk, sk, conditions, f"write-{next(self._ids)}")


class BlockingRows:
    """An asynchronous row store as a blocking one."""

    def __init__(self, rows: RowStore, loop: LoopThread) -> None:
        self._rows = rows
        self._loop = loop

    def get(self, pk: str, sk: str) -> Row | None:
        return self._loop.run(self._rows.get(pk, sk))

    def query(
        self, pk: str, prefix: str = "", *, after: str | None = None, limit: int = 1000
    ) -> Sequence[tuple[str, Row]]:
        return self._loop.run(self._rows.query(pk, prefix, after=after, limit=limit))

    def put_if(
        self, pk: str, sk: str, row: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._loop.run(self._rows.put_if(pk, sk, row, conditions, write_id))

    def update_if(
        self, pk: str, sk: str, sets: Row, conditions: Sequence[Condition], write_id: str
    ) -> None:
        self._loop.run(self._rows.update_if(pk, sk, sets, conditions, write_id))

    def delete_if(self, pk: str, sk: str, conditions: Sequence[Condition], write_id: str) -> None:
        self._loop.run(self._rows.delete_if(pk, sk, conditions, write_id))

    def close(self) -> None:
        self._loop.run(self._rows.close())


class BlockingRegistry:
    """An asynchronous registry as a blocking one."""

    def __init__(self, registry: Registry, loop: LoopThread) -> None:
        self._registry = registry
        self._loop = loop

    def get(self, pk: str, sk: str) -> Row | None:
        return self._loop.run(self._registry.get(pk, sk))

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        return self._loop.run(self._registry.query(pk, prefix))

    def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        self._loop.run(self._registry.put_if(pk, sk, row, *conditions))

    def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        self._loop.run(self._registry.update_if(pk, sk, sets, *conditions))

    def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None:
        self._loop.run(self._registry.delete_if(pk, sk, *conditions))


@contextmanager
def _on_loop(asynchronous: ObjectStore) -> Iterator[BlockingObjectStore]:
    with loop_thread() as loop:
        store = BlockingObjects(asynchronous, loop)
        yield store
        store.close()


@contextmanager
def _blocking(store: BlockingObjectStore) -> Iterator[BlockingObjectStore]:
    yield store
    store.close()


def _memory() -> MemoryObjects:
    return MemoryObjects(SystemClock())


def _no_faults() -> Faults:
    return Faults(StoreFaults(), Random(1), SystemClock())


@contextmanager
def _s3(endpoint: str) -> Iterator[BlockingObjectStore]:
    with aws_environment():
        store = S3Store(new_location(endpoint), S3Options(endpoint=endpoint), SystemClock())
        with _on_loop(store) as opened:
            yield opened


@contextmanager
def _s3_blocking(endpoint: str) -> Iterator[BlockingObjectStore]:
    with aws_environment():
        yield S3BlockingStore(new_location(endpoint), S3Options(endpoint=endpoint))


OBJECT_STORES: dict[str, Callable[[Path], AbstractContextManager[BlockingObjectStore]]] = {
    "memory": lambda _: _on_loop(MemoryStore(_memory())),
    "memory-blocking": lambda _: _blocking(_memory()),
    "directory": lambda folder: _blocking(DirectoryStore(folder / "objects")),
    "directory-named-files": lambda folder: _blocking(
        DirectoryStore(folder / "objects", unnamed_files=False)
    ),
    "threaded-directory": lambda folder: _on_loop(
        ThreadedStore(DirectoryStore(folder / "objects"), threads=4)
    ),
    "timed-memory": lambda _: _on_loop(
        TimedStore(MemoryStore(_memory()), RequestTimes(), SystemClock())
    ),
    "metered-memory": lambda _: _on_loop(MeteredStore(MemoryStore(_memory()), StoreCounts())),
    "metered-memory-blocking": lambda _: _blocking(MeteredBlockingStore(_memory(), StoreCounts())),
    "hedging-memory": lambda _: _on_loop(
        HedgingStore(MemoryStore(_memory()), HedgePolicy(HedgeSettings()), SystemClock())
    ),
    "faulty-memory-in-good-health": lambda _: _on_loop(
        FaultyStore(MemoryStore(_memory()), _no_faults(), SystemClock())
    ),
    "faulty-memory-in-good-health-blocking": lambda _: _blocking(
        FaultyBlockingStore(_memory(), _no_faults())
    ),
    "s3": lambda _: _s3(locked_moto()),
    "s3-blocking": lambda _: _s3_blocking(locked_moto()),
}

EMULATED = ("s3", "s3-blocking", "dynamodb")

# The same on servers that are processes, whose endpoint they take.
SERVED_OBJECT_STORES: dict[str, Callable[[str], AbstractContextManager[BlockingObjectStore]]] = {
    "s3-versitygw": _s3,
    "s3-versitygw-blocking": _s3_blocking,
    "s3-ministack": _s3,
}


@contextmanager
def _rows_on_loop(rows: RowStore) -> Iterator[BlockingRowStore]:
    with loop_thread() as loop:
        view = BlockingRows(rows, loop)
        yield view
        view.close()


@contextmanager
def _sqlite_blocking(folder: Path) -> Iterator[BlockingRowStore]:
    rows = SqliteRows(folder / "registry.db").blocking()
    yield rows
    rows.close()


@contextmanager
def _retrying(rows: RowStore) -> Iterator[BlockingRegistry]:
    ids = count()
    with loop_thread() as loop:
        registry = RetryingRegistry(rows, lambda: f"id-{next(ids)}", SystemClock(), Random(1))
        yield BlockingRegistry(registry, loop)
        loop.run(registry.close())


@contextmanager
def _dynamo(endpoint: str) -> Iterator[BlockingRowStore]:
    with dynamo_client(endpoint) as client, _rows_on_loop(DynamoRows(client)) as rows:
        yield rows


@contextmanager
def _dynamo_blocking(endpoint: str) -> Iterator[BlockingRowStore]:
    with dynamo_client(endpoint) as client:
        yield BlockingDynamoRows(client)


@contextmanager
def _retrying_dynamo(endpoint: str) -> Iterator[BlockingRegistry]:
    with dynamo_client(endpoint) as client, _retrying(DynamoRows(client)) as registry:
        yield registry


@contextmanager
def _like_registry(rows: AbstractContextManager[BlockingRowStore]) -> Iterator[RowsRegistry]:
    with rows as opened:
        yield RowsRegistry(opened)


ROW_STORES: dict[str, Callable[[Path], AbstractContextManager[BlockingRowStore]]] = {
    "memory": lambda _: _rows_on_loop(MemoryRows()),
    "timed-memory": lambda _: _rows_on_loop(
        TimedRows(MemoryRows(), RequestTimes(), RegistryUnits(), SystemClock())
    ),
    "sqlite": lambda folder: _rows_on_loop(SqliteRows(folder / "registry.db")),
    "sqlite-blocking": _sqlite_blocking,
    "dynamodb": lambda _: _dynamo(locked_moto()),
}

REGISTRIES: dict[str, Callable[[Path], AbstractContextManager[BlockingRegistry]]] = {
    "retrying-memory": lambda _: _retrying(MemoryRows()),
    "retrying-sqlite": lambda folder: _retrying(SqliteRows(folder / "registry.db")),
}

SERVED_ROW_STORES: dict[str, Callable[[str], AbstractContextManager[BlockingRowStore]]] = {
    "dynamodb-local": _dynamo,
    "dynamodb-local-blocking": _dynamo_blocking,
    "dynamodb-ministack": _dynamo,
}
SERVED_DYNAMODB = ("dynamodb-local", "dynamodb-ministack")
SERVED_REGISTRIES: dict[str, Callable[[str], AbstractContextManager[BlockingRegistry]]] = {
    "dynamodb-local-retrying": _retrying_dynamo,
}


@pytest.fixture
def race() -> Callable[[Callable[[int], Any]], Sequence[Any]]:
    """Answers `run(0)` to `run(7)`, called at the same moment by a thread each."""

    def run_all(run: Callable[[int], Any]) -> Sequence[Any]:
        start = threading.Barrier(RACERS, timeout=DEADLINE_S)

        def racer(number: int) -> Any:
            start.wait()
            return run(number)

        with ThreadPoolExecutor(RACERS) as pool:
            return list(pool.map(racer, range(RACERS)))

    return run_all


@pytest.fixture(scope="session")
def local_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why_no_dynamodb_local() is not None:
        pytest.skip("DynamoDB Local needs Java 17 and Maven")
    with dynamodb_local(tmp_path_factory.mktemp("dynamodb")) as endpoint:
        yield endpoint


def _slow(names: Iterable[str]) -> Sequence[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def _tiered(names: Iterable[str]) -> Sequence[Any]:
    """Each by its name; those that moto emulates are slow: a request takes it milliseconds."""
    return [one for name in names for one in (_slow([name]) if name in EMULATED else [name])]


@pytest.fixture(scope="session")
def versitygw_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why_no_versitygw() is not None:
        pytest.skip("versitygw needs Go, once")
    with versitygw(tmp_path_factory.mktemp("versitygw")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def ministack_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why_no_ministack() is not None:
        pytest.skip("ministack needs a package index, once")
    with ministack(tmp_path_factory.mktemp("ministack")) as endpoint:
        yield endpoint


@pytest.fixture(params=[*_tiered(OBJECT_STORES), *_slow(SERVED_OBJECT_STORES)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingObjectStore]:
    if request.param in OBJECT_STORES:
        made = OBJECT_STORES[request.param](tmp_path)
    else:
        made = SERVED_OBJECT_STORES[request.param](_endpoint(request))
    with made as opened:
        yield opened


@pytest.fixture(params=[*_tiered(ROW_STORES), *_slow(SERVED_ROW_STORES)])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingRowStore]:
    with _row_store(request, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["memory", "sqlite", *_slow(["dynamodb", *SERVED_DYNAMODB])])
def asynchronous_rows(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RowStore]:
    """As brokers use them: for the one event loop that the test runs, and closes them on."""
    if request.param == "memory":
        yield MemoryRows()
    elif request.param == "sqlite":
        yield SqliteRows(tmp_path / "registry.db")
    else:
        moto = request.param == "dynamodb"
        endpoint = locked_moto() if moto else _endpoint(request)
        # Hundreds of calls at once: on a loaded machine an emulator takes seconds for the last.
        with dynamo_client(endpoint, read_timeout_s=DEADLINE_S) as client:
            yield DynamoRows(client)


@pytest.fixture(
    params=[
        *_tiered(ROW_STORES),
        *REGISTRIES,
        *_slow([*SERVED_ROW_STORES, *SERVED_REGISTRIES]),
    ]
)
def registry(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[RowsRegistry | BlockingRegistry]:
    """Row stores and registries alike: the meaning of the calls is the same."""
    if request.param in REGISTRIES:
        with REGISTRIES[request.param](tmp_path) as opened:
            yield opened
    elif request.param in SERVED_REGISTRIES:
        with SERVED_REGISTRIES[request.param](_endpoint(request)) as opened:
            yield opened
    else:
        with _like_registry(_row_store(request, tmp_path)) as view:
            yield view


def _row_store(
    request: pytest.FixtureRequest, folder: Path
) -> AbstractContextManager[BlockingRowStore]:
    if request.param in SERVED_ROW_STORES:
        return SERVED_ROW_STORES[request.param](_endpoint(request))
    return ROW_STORES[request.param](folder)


def _endpoint(request: pytest.FixtureRequest) -> str:
    """Of the server that the second word of a served implementation's name says."""
    found: str = request.getfixturevalue(f"{request.param.split('-')[1]}_endpoint")
    return found
