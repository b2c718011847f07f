"""Makes a log where there is none, or checks one that is there: `logstore init`, `logstore probe`.

    bucket or directory reachable → table made or checked → no other cluster's rows in it → probe →
    cluster.json → cluster row → what the probe found, in the row (probe, result)

Every step may be repeated, also by two at once: of racing creators one wins, and both end with its
cluster. Nothing that brokers rely on is written before the probe has passed.
"""

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from logstore.errors import Invalid, Refused
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import CLUSTER_KEY
from logstore.objects.threaded import ThreadedStore
from logstore.ports.clock import Clock
from logstore.ports.objects import BlockingObjectStore
from logstore.ports.registry import BlockingRowStore, Row, RowStore
from logstore.probe import Report, probe
from logstore.probe.objects import PROBE
from logstore.protocol.chain.identity import Identity, ensure_identity
from logstore.registry.dynamodb_json.url import is_table_url, parse_table_url, same_place
from logstore.registry.reads import RetryingReads
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.stores.backends import EMBEDDED_REGISTRY, Backends
from logstore.stores.location import DirectoryLocation, parse_location
from logstore.wiring.open import identity_in

IDENTITY_THREADS = 2
PROBE_ROW = ("probe", "result")


@dataclass(frozen=True, slots=True)
class InitPorts:
    """Time, random numbers, and the version that a probe's result is recorded with."""

    clock: Clock
    rng: random.Random
    sleep_s: Callable[[float], None]
    version: str


@dataclass(frozen=True, slots=True)
class Initialised:
    url: str
    registry: str
    cluster_id: bytes
    created_log: bool
    created_table: bool
    report: Report
    keeps_deleted: bool | None
    """Whether deleted objects can be restored for a day; None: not allowed to know."""


@dataclass(frozen=True, slots=True)
class Probed:
    """`registry` is None where there is no log yet: the store alone was probed."""

    url: str
    registry: str | None
    report: Report
    keeps_deleted: bool | None


def check_arguments(url: str, registry: str | None, storage: Mapping[str, str]) -> None:
    """Raises `Invalid` for errors in the arguments, without any request."""
    backends = Backends(parse_location(url), storage)
    if registry is not None:
        backends.check_registry(registry)


def initialise(
    url: str, registry: str | None, storage: Mapping[str, str], around: InitPorts
) -> Initialised:
    """Leaves a log that brokers may serve.

    Raises `Refused`: a store or registry that fails the probe, a registry of another cluster, a log
    with another registry than `registry`. None means the one it has, in a directory a file.
    """
    backends = Backends(parse_location(url), storage)
    backends.make_directory()
    store = backends.blocking_store()
    try:
        known = identity_in(store)
        wanted, created_table = _ensure_registry(backends, registry, known, around)
        rows = backends.rows(wanted, "create", given=registry)
        try:
            _check_whose(rows.blocking(), store, known, wanted, around)
            report = _probe(backends, store, rows.blocking(), around)
            if not report.is_accepted:
                raise Refused(refusal(report))
            identity = asyncio.run(_ensure_identity(store, rows, wanted, around))
            _record(rows.blocking(), report, around)
            keeps_deleted = backends.keeps_deleted(store)
        finally:
            rows.blocking().close()
    finally:
        store.close()
    created_log = known is None
    return Initialised(
        backends.location.url,
        identity.registry,
        identity.cluster_id,
        created_log,
        created_table,
        report,
        keeps_deleted,
    )


def probe_log(url: str, storage: Mapping[str, str], around: InitPorts) -> Probed:
    """Probes a log's store and registry, or a store that has no log yet."""
    location = parse_location(url)
    if isinstance(location, DirectoryLocation) and not location.directory.is_dir():
        raise Refused(f"no such directory: {location.directory}; check --url")
    backends = Backends(location, storage)
    store = backends.blocking_store()
    try:
        known = identity_in(store)
        if known is None:
            report = _probe(backends, store, None, around)
            return Probed(location.url, None, report, backends.keeps_deleted(store))
        rows = backends.rows(known.registry, "write").blocking()
        try:
            report = _probe(backends, store, rows, around)
            if report.is_accepted:
                _record(rows, report, around)
        finally:
            rows.close()
        return Probed(location.url, known.registry, report, backends.keeps_deleted(store))
    finally:
        store.close()


def refusal(report: Report) -> str:
    """Why a report with faults is one, in one line."""
    return (
        f"the store or the registry failed the probe, using it would lose data: "
        f"{'; '.join(report.faults)}; correct it, or use another"
    )


def _ensure_registry(
    backends: Backends, given: str | None, known: Identity | None, around: InitPorts
) -> tuple[str, bool]:
    """The registry's whole URL, and whether its table was made now."""
    in_directory = isinstance(backends.location, DirectoryLocation)
    if given is None and known is None and not in_directory:
        raise Invalid(
            "a log in a bucket needs a registry: add --registry dynamodb://TABLE; "
            "a table that does not exist is created"
        )
    if known is not None and given is not None and not _same(known.registry, given):
        raise Refused(
            f"there is a log with another registry: url={backends.location.url} "
            f"has={known.registry} given={given}; leave out --registry, or choose another URL"
        )
    wanted = known.registry if known is not None else given or EMBEDDED_REGISTRY
    if not is_table_url(wanted):
        return wanted, False
    whole, created = backends.ensure_table(wanted, around.rng, around.sleep_s, given=given)
    return (whole if known is None else wanted), created


def _same(one: str, other: str) -> bool:
    if is_table_url(one) and is_table_url(other):
        return same_place(parse_table_url(one), parse_table_url(other))
    return one == other


def _check_whose(
    rows: BlockingRowStore,
    store: BlockingObjectStore,
    known: Identity | None,
    registry: str,
    around: InitPorts,
) -> None:
    """Raises `Refused` when the registry holds another cluster's rows."""
    row = RetryingReads(rows, around.rng).get(CLUSTER, CLUSTER)
    if row is None:
        return
    theirs = ClusterRow.of(row).cluster_id
    mine = known or identity_in(store)  # another process may be creating the same log
    if mine is None or mine.cluster_id != theirs:
        raise Refused(
            f"the registry belongs to another cluster: registry={registry} cluster={theirs.hex()} "
            f"{CLUSTER_KEY}={mine.cluster_id.hex() if mine else 'none'}; "
            "give each log a registry of its own"
        )


def _probe(
    backends: Backends,
    store: BlockingObjectStore,
    rows: BlockingRowStore | None,
    around: InitPorts,
) -> Report:
    name = secrets.token_hex(8)
    report = probe(store, rows, name=name, rng=around.rng, sleep_s=around.sleep_s)
    if isinstance(backends.location, DirectoryLocation):
        folder = backends.location.directory / PROBE
        with suppress(OSError):  # not empty: something was left, which the report says
            (folder / name).rmdir()
            folder.rmdir()
    return report


async def _ensure_identity(
    store: BlockingObjectStore, rows: RowStore, registry: str, around: InitPorts
) -> Identity:
    threaded = ThreadedStore(store, threads=IDENTITY_THREADS)
    retrying = RetryingRegistry(rows, lambda: secrets.token_hex(8), around.clock, around.rng)
    runner = StepRunner(
        threaded, retrying, around.clock, around.rng, lambda: secrets.token_bytes(16)
    )
    try:
        return await runner.run(ensure_identity(registry))
    finally:
        await threaded.close()


def _record(rows: BlockingRowStore, report: Report, around: InitPorts) -> None:
    """Store when this store last passed the probe, and its results, for later diagnosis."""
    pk, sk = PROBE_ROW
    row: Row = {
        "at_ms": around.clock.now_ms(),
        "version": around.version,
        "racers": report.racers,
        "rounds": report.rounds,
    }
    rows.put_if(pk, sk, row, [], secrets.token_hex(8))
