"""A log's URL → its store, its registry, its cluster. The one place that knows back ends by name.

    DIR, file:///DIR          a directory; its registry is DIR/registry.db unless cluster.json says
                              otherwise
Registry URLs: sqlite:PATH, relative to the directory.
"""

import random
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from logstore.chains.identity import Identity, ensure_identity, read_identity
from logstore.chains.keys import CLUSTER_KEY
from logstore.clock import Clock
from logstore.errors import Invalid, Refused
from logstore.objects.directory import DirectoryStore
from logstore.objects.metered import MeteredBlockingStore, MeteredStore, StoreCounts
from logstore.objects.store import BlockingObjectStore
from logstore.objects.threaded import ThreadedStore
from logstore.perform import BlockingPerformer, Performer
from logstore.registry.retrying import RetryingRegistry
from logstore.registry.sqlite import BlockingSqliteRows, SqliteRows
from logstore.registry.store import BlockingRowStore, Row

EMBEDDED_REGISTRY = "sqlite:registry.db"
STORE_THREADS = 16
READ_THREADS = 8
PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Location:
    """A directory that holds a log."""

    directory: Path

    @property
    def lock_directory(self) -> Path:
        return self.directory / "locks"


@dataclass(frozen=True, slots=True)
class OpenLog:
    """Ports of one log, for a broker. `counts` tells what its store was asked."""

    location: Location
    performer: Performer
    identity: Identity
    counts: StoreCounts

    async def close(self) -> None:
        await self.performer.registry.close()
        await self.performer.store.close()


@dataclass(frozen=True, slots=True)
class ReadableLog:
    """Ports of one log, for a reader without a broker: blocking, changes nothing."""

    location: Location
    performer: BlockingPerformer
    identity: Identity
    counts: StoreCounts
    rows: BlockingRowStore

    def close(self) -> None:
        if self.performer.threads is not None:
            self.performer.threads.shutdown()
        self.rows.close()
        self.performer.store.close()


def parse_location(url: str) -> Location:
    """Raises `Invalid` for what is not a URL this version serves."""
    if not url:
        raise Invalid("no URL of a log given; pass a directory, such as ./data")
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise Invalid(f"a file URL names another machine: url={url}")
        return Location(Path(unquote(parts.path)).absolute())
    if "://" in url:
        raise Invalid(
            f"unknown kind of URL: scheme={parts.scheme}; pass a directory or file:// URL"
        )
    return Location(Path(url).absolute())


async def open_log(url: str, *, clock: Clock, chance: random.Random) -> OpenLog:
    """For a broker. Creates cluster.json and the registry in an empty or new directory."""
    location = parse_location(url)
    _make_directory(location.directory)
    counts = StoreCounts()
    blocking = DirectoryStore(location.directory)
    store = MeteredStore(ThreadedStore(blocking, threads=STORE_THREADS), counts)
    try:
        known = _identity_of(blocking)
        registry_url = EMBEDDED_REGISTRY if known is None else known.registry
        rows = SqliteRows(_sqlite_path(location, registry_url))
        registry = RetryingRegistry(rows, lambda: secrets.token_hex(8), clock, chance)
        performer = Performer(store, registry, clock, chance, lambda: secrets.token_bytes(16))
        identity = await performer.run(ensure_identity(registry_url))
    except BaseException:
        await store.close()
        raise
    return OpenLog(location, performer, identity, counts)


def open_readable(url: str) -> ReadableLog:
    """For Spark and tools. Raises `Refused` where there is no log."""
    location = parse_location(url)
    counts = StoreCounts()
    store = MeteredBlockingStore(DirectoryStore(location.directory), counts)
    identity = _identity_of(store)
    if identity is None:
        raise Refused(f"no log here: url={url} has no {CLUSTER_KEY}; check the URL")
    rows = SqliteRows(_sqlite_path(location, identity.registry), mode="read").blocking()
    threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="logstore-read")
    performer = BlockingPerformer(store, _PagedReads(rows), random.Random(), threads)
    return ReadableLog(location, performer, identity, counts, rows)


def open_objects(url: str) -> BlockingObjectStore:
    """Only the store of a log: executors that were told what to read."""
    return DirectoryStore(parse_location(url).directory)


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot make the directory of the log: {error}; check --url") from error


def _identity_of(store: BlockingObjectStore) -> Identity | None:
    return BlockingPerformer(store, None, random.Random()).run(read_identity())


def _sqlite_path(location: Location, registry_url: str) -> Path:
    scheme, _, path = registry_url.partition(":")
    if scheme != "sqlite" or not path:
        raise Refused(f"unknown kind of registry: {registry_url}; this version knows sqlite:PATH")
    return location.directory / path


class _PagedReads:
    """Every row of a query, page by page."""

    def __init__(self, rows: BlockingSqliteRows) -> None:
        self._rows = rows

    def get(self, pk: str, sk: str) -> Row | None:
        return self._rows.get(pk, sk)

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        found: list[tuple[str, Row]] = []
        while True:
            after = found[-1][0] if found else None
            page = self._rows.query(pk, prefix, after=after, limit=PAGE_ROWS)
            found += page
            if len(page) < PAGE_ROWS:
                return found
