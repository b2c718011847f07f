"""A log in a bucket and a table, from `logstore init` on: real clients, restarts, other readers."""

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from logstore.cli.main import main
from logstore.formats.topic_row import TopicRow
from logstore.objects.s3_options import S3Location
from logstore.ports.clock import blocking_sleep_s
from logstore.reading.direct.reader import LogReader
from logstore.reading.direct.segment_fetch import read_batches
from logstore.records.batch import check_batch
from logstore.records.decode import decode_records
from logstore.registry.dynamodb.client import DynamoClient
from logstore.registry.dynamodb.table import ensure_table
from logstore.registry.dynamodb_json.url import TableUrl
from logstore.wiring.open import open_readable
from tests.scenarios.harness.brokers import bootstrap_of, refusal, start_broker, stop
from tests.scenarios.harness.data import read, write
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.short_watch import main_with_short_watch
from tests.servers.buckets import new_location
from tests.servers.dynamodb_local import dynamodb_local, why_no_dynamodb_local
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.tables import new_table_url
from tests.servers.versitygw import versitygw, why_no_versitygw

pytestmark = pytest.mark.clients

TOPIC = "kept"
FIRST = [f"first {number}" for number in range(300)]
SECOND = [f"second {number}" for number in range(300)]


@dataclass(frozen=True, slots=True)
class Servers:
    """An S3 server with an empty place in a bucket, and a table that is not there yet."""

    endpoint: str
    location: S3Location
    table: TableUrl
    state: Path

    @property
    def settings(self) -> list[str]:
        return ["--set", f"storage.endpoint={self.endpoint}"]

    def init(self) -> int:
        url = self.location.url
        return main(["init", "--url", url, "--registry", str(self.table), *self.settings])

    def broker(self, *more: str) -> Process:
        arguments = (*self.settings, "--state-dir", str(self.state), *more)
        return start_broker(self.location.url, more=arguments)


@pytest.fixture
def moto(tmp_path: Path) -> Iterator[Servers]:
    endpoint = locked_moto()
    with aws_environment():
        yield Servers(endpoint, new_location(endpoint), new_table_url(endpoint), tmp_path)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Servers]:
    if why_no_versitygw() is not None:
        pytest.skip("versitygw needs Go, once")
    if why_no_dynamodb_local() is not None:
        pytest.skip("DynamoDB Local needs Java 17 and Maven")
    with (
        aws_environment(),
        versitygw(tmp_path) as endpoint,
        dynamodb_local(tmp_path) as registry,
    ):
        yield Servers(endpoint, new_location(endpoint), new_table_url(registry), tmp_path)


@pytest.fixture(params=["moto", "real"])
def servers(request: pytest.FixtureRequest) -> Servers:
    found: Servers = request.getfixturevalue(request.param)
    return found


def read_objects(servers: Servers) -> list[str]:
    """Every value of the topic, read without a broker."""
    log = open_readable(servers.location.url, {"storage.endpoint": servers.endpoint})
    try:
        reader = LogReader(log)
        topics = {name: row for name, row in reader.topics().items() if name == TOPIC}
        values = []
        for key, view in reader.partitions(topics).items():
            for segments in reader.segment_ranges(key, view.row, view.log_start, view.end):
                assert segments.offsets.partition == key
                first, last = segments.first_seq, segments.last_seq
                for found in read_batches(
                    log.runner.store, segments.chain, first, last, [segments]
                ):
                    check_batch(found.data, 0, len(found.data))
                    for record in decode_records(found.data, max_bytes=1 << 20):
                        values.append(bytes(record.value or b"").decode())
        return values
    finally:
        log.close()


def test_what_clients_wrote_is_there_after_a_restart_and_for_other_readers(
    servers: Servers,
) -> None:
    assert servers.init() == 0
    with servers.broker() as broker:
        bootstrap = bootstrap_of(broker)
        write(bootstrap, TOPIC, FIRST)
        assert read(bootstrap, TOPIC) == FIRST
        stop(broker)
    with servers.broker() as broker:
        bootstrap = bootstrap_of(broker)
        write(bootstrap, TOPIC, SECOND)
        assert read(bootstrap, TOPIC) == FIRST + SECOND
        assert read_objects(servers) == FIRST + SECOND
        broker.kill()
    with servers.broker() as broker:  # after a kill, at once: it holds its predecessor's lock
        assert read(bootstrap_of(broker), TOPIC) == FIRST + SECOND
        stop(broker)
    assert read_objects(servers) == FIRST + SECOND


def topics(bootstrap: str, *arguments: str) -> None:
    assert main(["topics", "--bootstrap", bootstrap, *arguments]) == 0


def on_log(servers: Servers, command: str, *more: str) -> None:
    """With every broker stopped."""
    arguments = [command, "--url", servers.location.url, *servers.settings, *more]
    assert main_with_short_watch(arguments) == 0


def topic_rows(servers: Servers) -> Mapping[str, TopicRow]:
    log = open_readable(servers.location.url, {"storage.endpoint": servers.endpoint})
    try:
        return LogReader(log).topics()
    finally:
        log.close()


def test_a_lost_table_is_rebuilt_with_names_settings_and_counts(servers: Servers) -> None:
    assert servers.init() == 0
    with servers.broker() as broker:
        bootstrap = bootstrap_of(broker)
        for name in (TOPIC, "again", "gone"):
            topics(bootstrap, "create", name, "--partitions", "2", "--config", "retention.ms=-1")
            write(bootstrap, name, FIRST)
        topics(bootstrap, "alter", TOPIC, "--partitions", "5", "--config", "segment.bytes=1000000")
        for name in ("again", "gone"):
            topics(bootstrap, "delete", name)
        topics(bootstrap, "create", "again", "--partitions", "1")
        write(bootstrap, "again", SECOND)
        broker.kill()
    before = topic_rows(servers)
    forget_table(servers.table)
    on_log(servers, "restore")
    assert topic_rows(servers) == before
    assert {name: row.partitions for name, row in before.items()} == {TOPIC: 5, "again": 1}
    assert before[TOPIC].configs == {"retention.ms": "-1", "segment.bytes": "1000000"}
    on_log(servers, "fsck", "--data")
    for _ in range(2):
        on_log(servers, "gc", "--grace-minutes", "1")
    with servers.broker() as broker:
        bootstrap = bootstrap_of(broker)
        assert (read(bootstrap, TOPIC), read(bootstrap, "again")) == (FIRST, SECOND)
        write(bootstrap, TOPIC, SECOND)
        stop(broker)
    on_log(servers, "fsck", "--data")


def forget_table(table: TableUrl) -> None:
    """What is left is a table of this name without rows."""
    with closing(DynamoClient(table)) as client:
        client.call("delete_table", writes=True)
        ensure_table(client, random.Random(1), blocking_sleep_s)


def test_a_second_broker_of_the_same_number_is_refused(moto: Servers) -> None:
    assert moto.init() == 0
    with moto.broker() as broker:
        bootstrap_of(broker)
        with moto.broker() as twin:
            assert "is running already" in refusal(twin)
        elsewhere = str(moto.state / "another machine")
        with moto.broker("--state-dir", elsewhere) as twin:
            assert "is alive elsewhere" in refusal(twin)
        stop(broker)


def test_a_broker_refuses_a_bucket_without_a_log(moto: Servers) -> None:
    with moto.broker() as broker:
        assert "run: logstore init" in refusal(broker)


def test_wrong_keys_are_one_line_of_what_to_do(
    real: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ["AWS_SECRET_ACCESS_KEY"] = "wrong"
    assert real.init() == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "the secret key is wrong" in said
    with real.broker() as broker:
        assert "the secret key is wrong" in refusal(broker)
