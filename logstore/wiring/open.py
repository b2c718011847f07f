"""A log's URL → its ports: for brokers, for readers, for executors that read objects alone.

A directory becomes a log when a broker first opens it. A bucket is made one by `logstore init`; its
cluster.json says where the registry is, so a reader needs only the URL.
"""

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from logstore.errors import Refused
from logstore.formats.keys import CLUSTER_KEY
from logstore.objects.hedge_policy import HedgePolicy, HedgeSettings
from logstore.objects.hedging import HedgingStore
from logstore.objects.metered import MeteredBlockingStore, MeteredStore, StoreCounts
from logstore.objects.timed import TimedStore
from logstore.ports.clock import Clock
from logstore.ports.objects import BlockingObjectStore, ObjectStore
from logstore.ports.registry import BlockingRowStore, Registry, RowStore
from logstore.protocol.chain.identity import Identity, ensure_identity, read_identity
from logstore.protocol.deletion.believed_time import BelievedTime
from logstore.registry.memory import MemoryRows
from logstore.registry.reads import RetryingReads
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.timed import RegistryUnits, TimedRows
from logstore.request_times import RequestTimes
from logstore.runners.step_runner import BlockingStepRunner, StepRunner
from logstore.stores.backends import EMBEDDED_REGISTRY, Backends, state_directory
from logstore.stores.location import (
    DirectoryLocation,
    Location,
    parse_any_location,
    parse_location,
)
from logstore.wiring.host_lock import boot_id

if TYPE_CHECKING:
    from logstore.history.delta import Tables

READ_THREADS = (8, 16)
"""By depth: chains, partitions or objects side by side, and the objects that each of them reads."""


@dataclass(frozen=True, slots=True)
class PortTimes:
    """Measurements of each attempt of a request, by its port."""

    store: RequestTimes = field(default_factory=RequestTimes)
    registry: RequestTimes = field(default_factory=RequestTimes)
    units: RegistryUnits = field(default_factory=RegistryUnits)
    """Of the registry, as DynamoDB bills them."""


@dataclass(frozen=True, slots=True)
class OpenLog:
    """Ports of one log, for a broker. `counts` counts the calls of its store."""

    location: Location
    runner: StepRunner
    identity: Identity
    counts: StoreCounts
    state_directory: Path | None = None
    """For what belongs to this machine, when the log is in a bucket; None: the user's own."""
    tables: "Callable[[BlockingObjectStore], Tables] | None" = None
    """Reads the topics' tables through a store; loads libraries then. None: there are no tables."""
    times: PortTimes = field(default_factory=PortTimes)

    @property
    def is_in_directory(self) -> bool:
        return isinstance(self.location, DirectoryLocation)

    @property
    def lock_directory(self) -> Path:
        """Where the brokers of this log that run on this machine keep their locks."""
        if isinstance(self.location, DirectoryLocation):
            return self.location.directory / "locks"
        return (self.state_directory or state_directory()) / self.identity.cluster_id.hex()

    async def close(self) -> None:
        await self.runner.registry.close()
        await self.runner.store.close()


@dataclass(frozen=True, slots=True)
class ReadableLog:
    """Ports of one log, for a reader without a broker: blocking, changes nothing."""

    location: Location
    runner: BlockingStepRunner
    identity: Identity
    counts: StoreCounts
    rows: BlockingRowStore

    def close(self) -> None:
        for threads in self.runner.threads:
            threads.shutdown()
        self.rows.close()
        self.runner.store.close()


async def open_log(
    url: str,
    *,
    clock: Clock,
    rng: random.Random,
    storage: Mapping[str, str] | None = None,
    state_directory: Path | None = None,
) -> OpenLog:
    """For a broker. Creates cluster.json and the registry in an empty or new directory.

    `storage` are `storage.*` settings (`objects.s3_options`). Raises `Refused` where it is not safe
    to go on: a bucket without cluster.json, a registry of another cluster, or an empty one beside a
    log. One that is older than its log is found at the start (`protocol.leading.old_registry`).
    """
    location = parse_location(url)
    backends = Backends(location, storage)
    registry_url = await asyncio.to_thread(_registry_of, backends)
    counts, times = StoreCounts(), PortTimes()
    measured = TimedStore(backends.store(clock), times.store, clock)
    store: ObjectStore = MeteredStore(measured, counts)
    if not isinstance(location, DirectoryLocation):
        # Outside the meter, so that second requests are counted and paid for like the others.
        store = HedgingStore(store, HedgePolicy(HedgeSettings()), clock)
    try:
        rows = TimedRows(backends.rows(registry_url, "create"), times.registry, times.units, clock)
        registry = RetryingRegistry(rows, lambda: secrets.token_hex(8), clock, rng)
        runner = _runner(location, store, registry, clock, rng)
        try:
            identity = await runner.run(ensure_identity(registry_url))
        except BaseException:
            await registry.close()
            raise
    except BaseException:
        await store.close()
        raise
    tables = partial(open_tables, location.url, dict(storage or {}))
    return OpenLog(location, runner, identity, counts, state_directory, tables, times)


async def open_existing(
    url: str,
    *,
    clock: Clock,
    rng: random.Random,
    storage: Mapping[str, str] | None = None,
    lost_registry: Literal["refuse", "create", "imagine"] = "refuse",
) -> OpenLog:
    """For tools that change a log. It must be there; nothing is created.

    `lost_registry` says what to do where the registry's file is gone; to imagine one is to go on
    with an empty one in memory.

    Raises `Refused` where there is no log, `Retryable` and the like as its stores do.
    """
    location = parse_location(url)
    backends = Backends(location, storage)
    identity = await asyncio.to_thread(_identity_of, backends)
    if identity is None:
        raise Refused(f"no log here: url={url} has no {CLUSTER_KEY}; check the URL")
    counts = StoreCounts()
    rows: RowStore = backends.rows(
        identity.registry, "create" if lost_registry == "create" else "write"
    )
    if lost_registry == "imagine" and backends.is_lost(identity.registry):
        rows = MemoryRows()
    registry = RetryingRegistry(rows, lambda: secrets.token_hex(8), clock, rng)
    store = MeteredStore(backends.store(clock), counts)
    runner = _runner(location, store, registry, clock, rng)
    return OpenLog(location, runner, identity, counts)


def _runner(
    location: Location, store: ObjectStore, registry: Registry, clock: Clock, rng: random.Random
) -> StepRunner:
    # The files of a directory bear the time of this host, so they are no second witness of it.
    boot = boot_id() if isinstance(location, DirectoryLocation) else None
    believed = BelievedTime(boot)
    return StepRunner(store, registry, clock, rng, lambda: secrets.token_bytes(16), believed)


def _identity_of(backends: Backends) -> Identity | None:
    store = backends.blocking_store()
    try:
        return identity_in(store)
    finally:
        store.close()


def open_readable(
    url: str, storage: Mapping[str, str] | None = None, *, through_fsspec: bool = False
) -> ReadableLog:
    """For Spark and tools; blocks while it reads cluster.json.

    Raises `Refused` where there is no log, `Retryable` and the like as its stores do.
    `through_fsspec` reads the objects by fsspec (s3fs, …) instead of by our own stores, and takes
    any URL that it opens.
    """
    location = parse_any_location(url) if through_fsspec else parse_location(url)
    backends = Backends(location, storage)
    counts = StoreCounts()
    opened = backends.fsspec_store() if through_fsspec else backends.blocking_store()
    store = MeteredBlockingStore(opened, counts)
    try:
        identity = identity_in(store)
        if identity is None:
            raise Refused(f"no log here: url={url} has no {CLUSTER_KEY}; check the URL")
        rows = backends.rows(identity.registry, "read").blocking()
    except BaseException:
        store.close()
        raise
    threads = [
        ThreadPoolExecutor(count, thread_name_prefix="logstore-read") for count in READ_THREADS
    ]
    rng = random.Random()
    runner = BlockingStepRunner(store, RetryingReads(rows, rng), rng, threads)
    return ReadableLog(location, runner, identity, counts, rows)


def open_tables(
    url: str, storage: Mapping[str, str] | None, store: BlockingObjectStore
) -> "Tables":
    """The topics' tables of the log at `url`, whose open store is `store`."""
    from logstore.history.delta import Tables

    return Tables(url, storage, store=store)


def open_objects(url: str, storage: Mapping[str, str] | None = None) -> BlockingObjectStore:
    """Only the store of a log, for executors, which get the locations to read."""
    return Backends(parse_location(url), storage).blocking_store()


def identity_in(store: BlockingObjectStore) -> Identity | None:
    """The identity in cluster.json; None where that file does not exist."""
    return BlockingStepRunner(store, None, random.Random()).run(read_identity())


def _registry_of(backends: Backends) -> str:
    """The registry that cluster.json names. A directory without one is to become a log."""
    location = backends.location
    backends.make_directory()
    store = backends.blocking_store()
    try:
        identity = identity_in(store)
    finally:
        store.close()
    if identity is not None:
        return identity.registry
    if isinstance(location, DirectoryLocation):
        return EMBEDDED_REGISTRY
    raise Refused(
        f"no log here: url={location.url} has no {CLUSTER_KEY}; "
        f"run: logstore init --url {location.url} --registry dynamodb://TABLE"
    )
