"""Stores and registries by name, for one location. The one place that lists all kinds.

directory                 objects.directory; DIR/registry.db unless cluster.json says otherwise
s3://BUCKET/PREFIX        objects.s3, of the extra `s3`
sqlite:PATH               registry.sqlite, relative to the directory
dynamodb://TABLE?…        registry.dynamodb.rows, of the extra `s3`
"""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from logstore.errors import Invalid, LogstoreError, Refused
from logstore.objects.directory import DirectoryStore
from logstore.objects.files import make_folders
from logstore.objects.s3_options import S3Location, S3Options
from logstore.objects.threaded import ThreadedStore
from logstore.ports.clock import Clock
from logstore.ports.objects import BlockingObjectStore, ObjectStore
from logstore.ports.trash import Trash
from logstore.registry.dynamodb_json.url import is_table_url, parse_table_url
from logstore.registry.sqlite import SqliteRows
from logstore.registry.sqlite_file import Mode
from logstore.stores.location import DirectoryLocation, ForeignLocation, Location
from logstore.stores.trust import check_endpoint, check_file, check_path

if TYPE_CHECKING:
    from logstore.objects.s3_versions import S3Versions
    from logstore.registry.dynamodb.client import DynamoClient
    from logstore.registry.dynamodb.rows import DynamoRows

EMBEDDED_REGISTRY = "sqlite:registry.db"
STORE_THREADS = 16

_SQLITE = "sqlite:"


class Backends:
    """`storage` are the `storage.*` settings; what they leave open, the AWS environment says."""

    def __init__(self, location: Location, storage: Mapping[str, str] | None = None) -> None:
        """Raises `Invalid` for a setting that does not exist or cannot be."""
        self.location = location
        self._options = S3Options.of(storage or {})

    def make_directory(self) -> None:
        """Of a directory alone: buckets are created by their administrators."""
        if isinstance(self.location, DirectoryLocation):
            try:
                make_folders(self.location.directory)
            except OSError as error:
                raise Refused(f"cannot make the log's directory: {error}; check --url") from error

    def fsspec_store(self) -> BlockingObjectStore:
        """Read-only, through fsspec: independent of our own code, for any URL it supports."""
        from logstore.objects.fsspec_store import FsspecStore

        return FsspecStore(self.location.url, self._options)

    def blocking_store(self) -> BlockingObjectStore:
        if isinstance(self.location, DirectoryLocation):
            return DirectoryStore(self.location.directory)
        if isinstance(self.location, ForeignLocation):
            return self.fsspec_store()
        with _extra_installed():
            from logstore.objects.s3 import S3BlockingStore
        return S3BlockingStore(self.location, self._options)

    def trash(self, store: BlockingObjectStore) -> Trash | None:
        """Of a log whose store this is; None for a location that has none, whatever it is."""
        if isinstance(self.location, DirectoryLocation):
            return DirectoryStore(self.location.directory)
        return self._versions(store)

    def keeps_deleted(self, store: BlockingObjectStore) -> bool | None:
        """Whether objects deleted now can be restored for a day; None: not allowed to know.

        Of a bucket: whether it has versions.
        """
        if isinstance(self.location, DirectoryLocation):
            return True
        versions = self._versions(store)
        if versions is None:
            return False
        try:
            return versions.are_kept()
        except LogstoreError:
            return None

    def _versions(self, store: BlockingObjectStore) -> "S3Versions | None":
        if not isinstance(self.location, S3Location):
            return None
        with _extra_installed():
            from logstore.objects.s3_versions import S3Versions
        return S3Versions(self.location, self._options, store)

    def store(self, clock: Clock) -> ObjectStore:
        """For a broker. Removes unfinished files of dead brokers in a directory."""
        if isinstance(self.location, DirectoryLocation):
            directory = DirectoryStore(self.location.directory)
            directory.sweep()
            return ThreadedStore(directory, threads=STORE_THREADS)
        if isinstance(self.location, ForeignLocation):
            raise Invalid(f"a broker does not serve this kind of URL: url={self.location.url}")
        with _extra_installed():
            from logstore.objects.s3 import S3Store
        return S3Store(self.location, self._options, clock)

    def rows(
        self, registry: str, mode: Mode, *, given: str | None = None
    ) -> "SqliteRows | DynamoRows":
        """Returns the rows of the registry that cluster.json names. Nothing is opened yet.

        `given` is the registry's URL where the caller gave one. Raises `Invalid`, and `Refused` for
        a place that cluster.json alone names (`stores.trust`).
        """
        self.check_registry(registry)
        if is_table_url(registry):
            self._check_trust(registry, given)
            with _extra_installed():
                from logstore.registry.dynamodb.rows import DynamoRows
            return DynamoRows(self._table(registry))
        assert isinstance(self.location, DirectoryLocation)
        path = registry.removeprefix(_SQLITE)
        check_file(self.location.directory, path)
        return SqliteRows(self.location.directory / path, mode)

    def _check_trust(self, registry: str, given: str | None) -> None:
        by_caller = parse_table_url(given).endpoint if given and is_table_url(given) else None
        own = (by_caller, self._options.dynamodb_endpoint)
        check_endpoint(parse_table_url(registry).endpoint, own)

    def is_lost(self, registry: str) -> bool:
        """Whether the registry is a file, and is gone."""
        return (
            isinstance(self.location, DirectoryLocation)
            and registry.startswith(_SQLITE)
            and not (self.location.directory / registry.removeprefix(_SQLITE)).exists()
        )

    def check_registry(self, registry: str) -> None:
        """Raises `Invalid` unless it is the URL of a registry that a log here can have."""
        if is_table_url(registry):
            parse_table_url(registry)
        elif not registry.startswith(_SQLITE) or registry == _SQLITE:
            raise Invalid(
                f"unknown kind of registry: {registry}; this version knows dynamodb://TABLE, and "
                "sqlite:PATH in a directory"
            )
        elif not isinstance(self.location, DirectoryLocation):
            raise Invalid(
                f"a registry in a file cannot serve a log in a bucket: url={self.location.url} "
                f"registry={registry}; give --registry dynamodb://TABLE"
            )
        else:
            check_path(registry.removeprefix(_SQLITE))

    def ensure_table(
        self,
        registry: str,
        rng: random.Random,
        sleep_s: Callable[[float], None],
        *,
        given: str | None = None,
    ) -> tuple[str, bool]:
        """Leaves the table of a dynamodb:// URL ready for use; `given` as for `rows`.

        Returns the URL with its region, for readers elsewhere, and whether it made the table.
        """
        self._check_trust(registry, given)
        client = self._table(registry)
        with _extra_installed():
            from logstore.registry.dynamodb.table import ensure_table
        try:
            created = ensure_table(client, rng, sleep_s)
            return str(replace(client.url, region=client.region())), created
        finally:
            client.close()

    def _table(self, registry: str) -> "DynamoClient":
        with _extra_installed():
            from logstore.registry.dynamodb.client import DynamoClient
        url = parse_table_url(registry)
        return DynamoClient(url, profile=self._options.profile, region=self._options.region)


def state_directory() -> Path:
    """Folder of a broker's lock if the log is in a bucket and --state-dir is not given."""
    given = os.environ.get("XDG_STATE_HOME")
    try:
        home = Path(given) if given else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise Refused(f"no home directory for a broker's lock: {error}; set --state-dir") from error
    return home / "logstore"


@contextmanager
def _extra_installed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise Refused(
            f"S3 and DynamoDB need a module that is not installed: {error.name}; "
            "pip install 'pyspark-logstore[s3]'"
        ) from error
