"""`logstore init` and `logstore probe`, on directories and on moto behind a lock."""

import random
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from logstore.cli.command import FAILED, OK, USAGE
from logstore.formats.cluster_row import CLUSTER, ClusterRow
from logstore.formats.keys import CLUSTER_KEY, segment_key
from logstore.objects.directory import DirectoryStore
from logstore.objects.s3_options import S3Location
from logstore.ports.clock import SystemClock
from logstore.ports.objects import BlockingObjectStore
from logstore.probe import objects as objects_probe
from logstore.protocol.chain.identity import Identity, encode_identity
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb.rows import BlockingDynamoRows
from logstore.registry.dynamodb.table import ensure_table
from logstore.registry.dynamodb_json.url import TableUrl
from logstore.wiring.initialise import PROBE_ROW, Initialised, InitPorts, initialise
from logstore.wiring.open import open_objects, open_readable
from tests.logstore.cli.conftest import Command
from tests.servers.buckets import new_bucket, new_location, s3_client
from tests.servers.locked_moto import REGION, aws_environment, locked_moto
from tests.servers.tables import new_table_url


@pytest.fixture
def endpoint() -> Iterator[str]:
    with aws_environment():
        yield locked_moto()


@pytest.fixture
def bucket(endpoint: str) -> S3Location:
    return new_location(endpoint)


@pytest.fixture
def table(endpoint: str) -> TableUrl:
    return new_table_url(endpoint)


def on_s3(endpoint: str, url: str) -> list[str]:
    return ["--url", url, "--set", f"storage.endpoint={endpoint}"]


def name_registry(endpoint: str, bucket: S3Location, table: TableUrl) -> None:
    """A log whose `init` has come as far as cluster.json."""
    identity = encode_identity(Identity(b"\x01" * 16, str(table)))
    open_objects(bucket.url, {"storage.endpoint": endpoint}).create(CLUSTER_KEY, [identity])


def make_table(table: TableUrl, cluster_id: bytes) -> None:
    """A registry that belongs to that cluster."""
    with closing(DynamoClient(table)) as client:
        ensure_table(client, random.Random(1), lambda _: None)
        row = ClusterRow(cluster_id, 1, 1).row()
        BlockingDynamoRows(client).put_if(CLUSTER, CLUSTER, row, [], "w")


@pytest.mark.slow
def test_init_makes_a_log_in_a_bucket_and_says_what_it_did(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command
) -> None:
    answer = logstore("init", *on_s3(endpoint, bucket.url), "--registry", table)
    assert answer.code == OK, answer.err
    assert f"{bucket.url} (created)" in answer.out
    assert f"{table} (table created)" in answer.out
    assert re.search(r"racing creates +20 +20 +1 in 20 rounds", answer.out)
    assert f"logstore serve --url {bucket.url}" in answer.out
    log = open_readable(bucket.url, {"storage.endpoint": endpoint})
    assert log.identity.registry == str(table)
    result = log.rows.get(*PROBE_ROW) or {}
    assert (result["racers"], result["rounds"]) == (8, 40)
    assert [info.key for info in log.runner.store.list("")] == [CLUSTER_KEY]
    log.close()


@pytest.mark.slow
def test_it_is_said_whether_what_is_deleted_can_be_had_back(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command, tmp_path: Path
) -> None:
    answer = logstore("init", *on_s3(endpoint, bucket.url), "--registry", table)
    assert "lost for good: the bucket has no versions; turn on versioning" in answer.out
    assert not logstore("probe", *on_s3(endpoint, bucket.url), "--json").json["keeps_deleted"]

    versioned = new_bucket(endpoint)
    s3_client(endpoint).put_bucket_versioning(
        Bucket=versioned.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    answer = logstore("probe", *on_s3(endpoint, versioned.url))
    assert "kept as noncurrent versions, until a lifecycle rule removes them" in answer.out
    assert logstore("probe", *on_s3(endpoint, versioned.url), "--json").json["keeps_deleted"]
    assert "kept for a day, in .trash" in logstore("init", "--url", tmp_path / "log").out


@pytest.mark.slow
def test_init_again_changes_nothing(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command
) -> None:
    arguments = [*on_s3(endpoint, bucket.url), "--json"]
    first = logstore("init", *arguments, "--registry", table).json
    again = logstore("init", *arguments).json  # it has its registry
    assert first["created_log"] is first["created_table"] is True
    assert again["created_log"] is again["created_table"] is False
    assert again["cluster_id"] == first["cluster_id"]
    assert again["probe"]["accepted"] is True


@pytest.mark.slow
def test_readers_elsewhere_get_the_region(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command
) -> None:
    here = str(TableUrl(table.table, None, table.endpoint))
    answer = logstore("init", *on_s3(endpoint, bucket.url), "--registry", here, "--json")
    assert f"region={REGION}" in answer.json["registry"]
    assert logstore("init", *on_s3(endpoint, bucket.url), "--registry", here).code == OK


@pytest.mark.slow
def test_two_inits_at_once_make_one_log(endpoint: str, bucket: S3Location, table: TableUrl) -> None:
    def make(_: int) -> Initialised:
        around = InitPorts(SystemClock(), random.Random(), lambda _: None, "1")
        return initialise(bucket.url, str(table), {"storage.endpoint": endpoint}, around)

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(make, range(2)))
    assert len({each.cluster_id for each in made}) == 1


def test_a_table_of_another_cluster_is_refused_before_anything_is_written(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command
) -> None:
    make_table(table, b"\x01" * 16)
    answer = logstore("init", *on_s3(endpoint, bucket.url), "--registry", table)
    assert answer.code == FAILED
    assert "belongs to another cluster" in answer.err
    assert "give each log a registry of its own" in answer.err
    assert list(open_objects(bucket.url, {"storage.endpoint": endpoint}).list("")) == []


def test_another_registry_for_a_log_that_has_one_is_refused(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command
) -> None:
    name_registry(endpoint, bucket, table)
    another = new_table_url(endpoint)
    answer = logstore("init", *on_s3(endpoint, bucket.url), "--registry", another)
    assert answer.code == FAILED
    assert f"has={table} given={another}" in answer.err


@pytest.mark.slow
def test_a_registry_that_was_lost_is_not_made_again(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command
) -> None:
    name_registry(endpoint, bucket, table)
    store = open_objects(bucket.url, {"storage.endpoint": endpoint})
    store.create(segment_key(1, 0), [b"an opening"])
    answer = logstore("init", *on_s3(endpoint, bucket.url))
    assert answer.code == FAILED
    assert "logstore restore" in answer.err


def test_a_table_with_other_keys_is_refused(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command
) -> None:
    with closing(DynamoClient(table)) as client:
        client.call(
            "create_table",
            writes=True,
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
    answer = logstore("init", *on_s3(endpoint, bucket.url), "--registry", table)
    assert answer.code == FAILED
    assert "found=pk:S wanted=pk:S,sk:S" in answer.err


def test_a_bucket_needs_a_registry_in_its_settings(
    endpoint: str, bucket: S3Location, logstore: Command
) -> None:
    answer = logstore("init", *on_s3(endpoint, bucket.url))
    assert answer.code == FAILED
    assert "--registry dynamodb://TABLE" in answer.err


def test_a_bucket_that_does_not_exist_is_named(
    endpoint: str, table: TableUrl, logstore: Command
) -> None:
    answer = logstore("init", *on_s3(endpoint, "s3://not-there/log"), "--registry", table)
    assert answer.code == FAILED
    assert "no such bucket: bucket=not-there" in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.slow
def test_a_server_that_is_not_there_is_one_line(bucket: S3Location, logstore: Command) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{listener.getsockname()[1]}"
    store = logstore("init", *on_s3(nowhere, bucket.url), "--registry", "dynamodb://logs")
    registry = f"dynamodb://logs?endpoint={nowhere}"
    rows = logstore("init", *on_s3(locked_moto(), bucket.url), "--registry", registry)
    for answer in (store, rows):
        assert answer.code == FAILED
        assert "reach" in answer.err
        assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ["--registry", "sqlite:registry.db"],
        ["--registry", "dynamodb://no"],
        ["--registry", "dynamodb://key:secret@logs"],
        ["--registry", "redis://host"],
        ["--set", "storage.regoin=x"],
        ["--set", "storage.path.style=maybe"],
        ["--set", "nonsense"],
    ],
)
def test_arguments_that_make_no_sense_are_wrong_usage(
    wrong: list[str], bucket: S3Location, logstore: Command
) -> None:
    answer = logstore("init", "--url", bucket.url, *wrong)
    assert answer.code == USAGE
    assert answer.err.count("\n") == 1
    assert "secret" not in answer.err


def test_a_directory_is_made_a_log_without_a_registry_to_name(
    tmp_path: Path, logstore: Command
) -> None:
    answer = logstore("init", "--url", tmp_path / "log", "--json")
    assert answer.json["registry"] == "sqlite:registry.db"
    names = {path.name for path in (tmp_path / "log").iterdir()}
    assert names - {"registry.db-wal", "registry.db-shm", ".trash"} == {
        CLUSTER_KEY,
        "registry.db",
        "registry.db-turn",
    }


class LetsAllWin:
    """A directory's store, but creates overwrite."""

    def __init__(self, store: BlockingObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def create(self, key: str, parts: list[bytes]) -> None:
        self._store.delete(key)
        self._store.create(key, parts)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories overwrite."""
    monkeypatch.setattr("logstore.stores.backends.DirectoryStore", lambda root: _broken(root))


def _broken(root: Path) -> object:
    return LetsAllWin(DirectoryStore(root))


@pytest.mark.usefixtures("broken")
def test_a_store_that_fails_the_probe_becomes_no_log(tmp_path: Path, logstore: Command) -> None:
    answer = logstore("init", "--url", tmp_path)
    assert answer.code == FAILED
    assert "failed the probe" in answer.err
    assert "a create replaced an object" in answer.err
    assert not (tmp_path / CLUSTER_KEY).exists()
    assert not (tmp_path / objects_probe.PROBE).exists()


def test_probe_accepts_a_log_and_records_it(tmp_path: Path, logstore: Command) -> None:
    assert logstore("init", "--url", tmp_path).code == OK
    before = _result(tmp_path)["at_ms"]
    answer = logstore("probe", "--url", tmp_path)
    assert answer.code == OK
    assert "accepted" in answer.out
    assert _result(tmp_path)["at_ms"] != before


def _result(directory: Path) -> dict[str, object]:
    log = open_readable(str(directory))
    try:
        return dict(log.rows.get(*PROBE_ROW) or {})
    finally:
        log.close()


@pytest.mark.slow
def test_probe_looks_at_a_store_that_has_no_log_yet(
    endpoint: str, bucket: S3Location, logstore: Command
) -> None:
    answer = logstore("probe", *on_s3(endpoint, bucket.url), "--json")
    assert answer.code == OK
    assert answer.json["registry"] is None
    assert [race["winners"] for race in answer.json["probe"]["races"]] == [{"1": 20}]
    assert list(open_objects(bucket.url, {"storage.endpoint": endpoint}).list("")) == []


@pytest.mark.usefixtures("broken")
def test_probe_fails_with_what_is_wrong(tmp_path: Path, logstore: Command) -> None:
    answer = logstore("probe", "--url", tmp_path, "--json")
    assert answer.code == FAILED
    assert answer.json["probe"]["accepted"] is False
    assert logstore("probe", "--url", tmp_path).err.startswith("logstore: the store")


def test_probe_makes_no_directory(tmp_path: Path, logstore: Command) -> None:
    answer = logstore("probe", "--url", tmp_path / "typo")
    assert answer.code == FAILED
    assert not (tmp_path / "typo").exists()


def test_rows_of_another_cluster_that_appear_later_are_refused(
    endpoint: str, bucket: S3Location, table: TableUrl, logstore: Command
) -> None:
    name_registry(endpoint, bucket, table)
    make_table(table, b"\x02" * 16)
    answer = logstore("init", *on_s3(endpoint, bucket.url))
    assert answer.code == FAILED
    assert f"cluster={'02' * 16} {CLUSTER_KEY}={'01' * 16}" in answer.err
