"""From a URL to ports: directories, buckets, and what is refused with what to do."""

import asyncio
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.errors import Invalid, LogstoreError, Refused
from logstore.formats.cluster_row import CLUSTER
from logstore.formats.keys import CLUSTER_KEY
from logstore.objects.directory import DirectoryStore
from logstore.objects.s3_options import S3Location
from logstore.ports.clock import SystemClock
from logstore.ports.registry import RowAbsent
from logstore.protocol.chain.identity import Identity, encode_identity
from logstore.wiring.initialise import InitPorts, initialise
from logstore.wiring.open import OpenLog, open_log, open_objects, open_readable
from tests.servers.buckets import new_location, s3_client
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.tables import new_table_url


def no_pause(seconds: float) -> None:
    """Back-offs take no time here."""


AROUND = InitPorts(SystemClock(), random.Random(1), no_pause, "1.2.3")


async def opened(url: str, storage: dict[str, str] | None = None) -> OpenLog:
    return await open_log(url, clock=SystemClock(), rng=random.Random(1), storage=storage)


def failure(url: str, storage: dict[str, str] | None = None) -> LogstoreError:
    """Why a broker cannot open the log."""

    async def scenario() -> None:
        await (await opened(url, storage)).close()

    with pytest.raises(LogstoreError) as raised:
        asyncio.run(scenario())
    return raised.value


@pytest.fixture
def storage() -> Iterator[dict[str, str]]:
    with aws_environment():
        yield {"storage.endpoint": locked_moto()}


@pytest.fixture
def bucket(storage: dict[str, str]) -> S3Location:
    return new_location(locked_moto())


def test_a_directory_becomes_a_log_when_it_is_first_opened(tmp_path: Path) -> None:
    async def scenario() -> tuple[OpenLog, OpenLog]:
        first, second = await opened(str(tmp_path / "a/b")), await opened(str(tmp_path / "a/b"))
        await first.close()
        await second.close()
        return first, second

    first, second = asyncio.run(scenario())
    assert first.identity == second.identity
    assert first.lock_directory == tmp_path / "a/b/locks"
    assert first.is_in_directory
    log = open_readable(str(tmp_path / "a/b"))
    assert log.identity == first.identity
    log.close()


def test_a_reader_makes_no_log_of_a_directory(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no log here.*check the URL"):
        open_readable(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_what_opens_no_log_leaves_no_store_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[DirectoryStore] = []
    monkeypatch.setattr(DirectoryStore, "close", lambda store: closed.append(store))

    with pytest.raises(Refused):
        open_readable(str(tmp_path))
    unknown = encode_identity(Identity(bytes(16), "etcd:none"))
    (tmp_path / CLUSTER_KEY).write_bytes(unknown)
    with pytest.raises(LogstoreError):
        open_readable(str(tmp_path))
    assert len(closed) == 2


def test_a_broker_clears_away_what_dead_ones_left_unfinished(tmp_path: Path) -> None:
    left = tmp_path / ".tmp" / "1-1"
    left.parent.mkdir()
    left.write_bytes(b"half an object")

    async def scenario() -> None:
        await (await opened(str(tmp_path))).close()

    asyncio.run(scenario())
    assert not left.exists()


def test_when_the_registry_is_anothers_nothing_stays_open(tmp_path: Path) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        await (await opened(str(tmp_path))).close()

    asyncio.run(scenario())
    (tmp_path / CLUSTER_KEY).unlink()
    other = Identity(b"\x01" * 16, "sqlite:registry.db")
    DirectoryStore(tmp_path).create(CLUSTER_KEY, [encode_identity(other)])
    assert "another cluster" in str(failure(str(tmp_path)))
    left = [t for t in set(threading.enumerate()) - before if "registry" in t.name]
    for thread in left:  # one that said that it is closed has a few instructions to go
        thread.join(timeout=10)
    assert not [thread for thread in left if thread.is_alive()]


def test_a_bucket_without_cluster_json_is_refused_and_stays_empty(
    bucket: S3Location, storage: dict[str, str]
) -> None:
    error = failure(bucket.url, storage)
    assert isinstance(error, Refused)
    assert f"run: logstore init --url {bucket.url}" in str(error)
    assert list(open_objects(bucket.url, storage).list("")) == []


@pytest.mark.slow
def test_a_bucket_is_a_log_after_init_and_readers_need_only_its_url(
    bucket: S3Location, storage: dict[str, str], tmp_path: Path
) -> None:
    made = initialise(bucket.url, str(new_table_url(locked_moto())), storage, AROUND)

    async def scenario() -> OpenLog:
        log = await open_log(
            bucket.url,
            clock=SystemClock(),
            rng=random.Random(1),
            storage=storage,
            state_directory=tmp_path,
        )
        registry = log.runner.registry
        await registry.put_if("pk", "sk", {"n": 1}, RowAbsent())
        await log.runner.store.create("chains/x", [b"bytes"])
        await log.close()
        return log

    log = asyncio.run(scenario())
    assert log.identity.cluster_id == made.cluster_id
    assert log.lock_directory == tmp_path / made.cluster_id.hex()
    assert not log.is_in_directory
    readable = open_readable(bucket.url, storage)
    assert readable.rows.get("pk", "sk") is not None
    assert readable.runner.store.get("chains/x") == b"bytes"
    readable.close()
    through_s3fs = open_readable(bucket.url, storage, through_fsspec=True)
    assert through_s3fs.runner.store.get("chains/x") == b"bytes"
    assert through_s3fs.identity == readable.identity
    through_s3fs.close()
    with aws_environment({"AWS_ENDPOINT_URL": storage["storage.endpoint"]}):
        by_environment = open_readable(bucket.url)  # without a setting
        assert by_environment.identity.cluster_id == made.cluster_id
        by_environment.close()


@pytest.mark.slow
def test_a_brokers_lock_lies_in_the_users_state_unless_said_otherwise(
    bucket: S3Location, storage: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = initialise(bucket.url, str(new_table_url(locked_moto())), storage, AROUND)

    async def scenario() -> OpenLog:
        log = await opened(bucket.url, storage)
        await log.close()
        return log

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = asyncio.run(scenario())
    assert log.lock_directory == tmp_path / "logstore" / made.cluster_id.hex()


@pytest.mark.parametrize(
    "registry", ["sqlite:registry.db", "sqlite:", "redis://host", "dynamodb:x"]
)
def test_a_registry_that_a_bucket_cannot_have_is_refused(
    registry: str, bucket: S3Location, storage: dict[str, str]
) -> None:
    identity = encode_identity(Identity(b"\x01" * 16, registry))
    open_objects(bucket.url, storage).create(CLUSTER_KEY, [identity])
    assert isinstance(failure(bucket.url, storage), Invalid)
    with pytest.raises(Invalid):
        open_readable(bucket.url, storage)


def test_a_table_that_has_gone_is_named(bucket: S3Location, storage: dict[str, str]) -> None:
    url = new_table_url(locked_moto())
    identity = encode_identity(Identity(b"\x01" * 16, str(url)))
    open_objects(bucket.url, storage).create(CLUSTER_KEY, [identity])
    assert f"table={url.table}" in str(failure(bucket.url, storage))


def test_a_bucket_that_does_not_exist_is_named(storage: dict[str, str]) -> None:
    assert "no such bucket: bucket=not-there" in str(failure("s3://not-there/log", storage))


@pytest.mark.parametrize("setting", ["storage.endpiont", "storage.path.style"])
def test_a_wrong_setting_is_named(setting: str, bucket: S3Location) -> None:
    with pytest.raises(Invalid, match=setting):
        open_readable(bucket.url, {setting: "maybe"})


@pytest.mark.parametrize(
    ("library", "loaded"),
    [("obstore", "logstore.objects.s3"), ("botocore.config", "logstore.registry.dynamodb.client")],
)
def test_a_missing_library_says_what_to_install(
    library: str,
    loaded: str,
    bucket: S3Location,
    storage: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    identity = encode_identity(Identity(b"\x01" * 16, str(new_table_url(locked_moto()))))
    s3_client(locked_moto()).put_object(
        Bucket=bucket.bucket, Key=f"{bucket.prefix}/{CLUSTER_KEY}", Body=identity
    )
    monkeypatch.setitem(sys.modules, library, None)
    for name in (loaded, "logstore.registry.dynamodb.rows"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(Refused, match=r"pip install 'pyspark-logstore\[s3\]'"):
        open_readable(bucket.url, storage)


@pytest.mark.slow
def test_a_directory_may_have_its_registry_in_a_table(
    tmp_path: Path, storage: dict[str, str]
) -> None:
    made = initialise(str(tmp_path), str(new_table_url(locked_moto())), storage, AROUND)

    async def scenario() -> None:
        log = await opened(str(tmp_path), storage)
        assert (await log.runner.registry.get(CLUSTER, CLUSTER) or {})[
            "cluster_id"
        ] == made.cluster_id.hex()
        await log.close()

    asyncio.run(scenario())
    assert not (tmp_path / "registry.db").exists()
