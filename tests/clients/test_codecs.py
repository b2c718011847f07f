"""Every codec of every client that has it is read by every other client that has it.

`test_interop_hash` compares many records without compression and with lz4; here are the rest, with
fewer. kafka-python has neither snappy nor zstd without packages that nothing else here needs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore.records.batch import split_batches
from tests.broker.running import fetch
from tests.clients.hashed_records import PARTITIONS
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker
from tests.scenarios.harness.process import Process
from tools.full_wire import Connection

pytestmark = pytest.mark.clients

RECORDS = 300
DEADLINE_S = 120.0
CLIENTS = {
    "gzip": ("librdkafka", "kafka-python", "aiokafka"),
    "snappy": ("librdkafka", "aiokafka"),
    "zstd": ("librdkafka", "aiokafka"),
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_broker(str(tmp_path_factory.mktemp("log"))) as broker:
        yield bootstrap_of(broker)


@pytest.mark.parametrize(
    ("codec", "producer"), [(codec, one) for codec, those in CLIENTS.items() for one in those]
)
def test_what_one_client_packed_another_unpacks(
    codec: str, producer: str, bootstrap: str, tmp_path: Path
) -> None:
    topic = f"{producer}-{codec}"
    create_topic(bootstrap, topic, PARTITIONS)

    sent = run_client("produce", producer, bootstrap, topic, tmp_path / "sent", codec)

    assert sent.startswith(f"records={RECORDS} ")
    for consumer in CLIENTS[codec]:
        found = run_client("consume", consumer, bootstrap, topic, tmp_path / consumer, codec)
        assert found == sent, consumer


@pytest.mark.parametrize("kind", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_broker_packed_every_client_unpacks(
    kind: str, bootstrap: str, tmp_path: Path
) -> None:
    topic = f"packed-{kind}"
    create_topic(bootstrap, topic, PARTITIONS, {"compression.type": kind})
    readers = CLIENTS.get(kind, CLIENTS["gzip"])
    sent_as = "lz4" if kind == "uncompressed" else "none"

    sent = run_client("produce", "librdkafka", bootstrap, topic, tmp_path / "sent", sent_as)

    for consumer in readers:
        found = run_client("consume", consumer, bootstrap, topic, tmp_path / consumer, kind)
        assert found == sent, consumer
    assert codecs_stored(bootstrap, topic) == {"none" if kind == "uncompressed" else kind}


def codecs_stored(bootstrap: str, topic: str) -> set[str]:
    """Of the batches that a Fetch of every partition answers."""
    codecs: set[str] = set()
    host, port = bootstrap.split(":")
    with Connection.open(host, int(port), DEADLINE_S) as client:
        for partition in range(PARTITIONS):
            records: Any = fetch(client, topic, partition=partition).records or b""
            codecs |= {header.compression for _, header in split_batches(records)}
    return codecs


def run_client(action: str, client: str, bootstrap: str, topic: str, out: Path, codec: str) -> str:
    arguments = (
        *("tests.clients.three_clients", action, "--client", client, "--bootstrap", bootstrap),
        *("--topic", topic, "--records", str(RECORDS), "--out", str(out), "--codec", codec),
    )
    with Process(arguments) as process:
        return process.wait_for("^records=.* sha256=.*", deadline_s=DEADLINE_S)[0]
