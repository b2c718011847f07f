"""Whatever client wrote it and whatever client reads it, the records are the same.

For each of librdkafka, kafka-python and aiokafka, and each codec and none: SHA-256 over
(partition, offset, timestamp, key, value, headers) of every record, computed from what was sent and
acknowledged, and again by each of the three as a consumer. `RECORDS` sets how many a producer
writes.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.hashed_records import PARTITIONS
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

RECORDS = int(os.environ.get("RECORDS", "2000"))
DEADLINE_S = 600.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENTS = ("librdkafka", "kafka-python", "aiokafka")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_broker(str(tmp_path_factory.mktemp("log"))) as broker:
        yield bootstrap_of(broker)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", CLIENTS)
def test_every_client_reads_exactly_what_another_wrote(
    producer: str, codec: str, bootstrap: str, tmp_path: Path
) -> None:
    topic = f"{producer}-{codec}"
    create_topic(bootstrap, topic, PARTITIONS)

    of_topic = (bootstrap, topic)
    with run_client("produce", producer, *of_topic, tmp_path / "sent", "--codec", codec) as client:
        sent = hashed(client)
    with ExitStack() as stack:
        consumers = {
            name: stack.enter_context(run_client("consume", name, *of_topic, tmp_path / name))
            for name in CLIENTS
        }
        read = {name: hashed(consumer) for name, consumer in consumers.items()}

    assert sent.startswith(f"records={RECORDS} ")
    for consumer, found in read.items():
        assert found == sent, (
            f"{consumer} read it differently: "
            f"{first_difference(tmp_path / 'sent', tmp_path / consumer)}"
        )


def run_client(
    action: str, client: str, bootstrap: str, topic: str, out: Path, *more: str
) -> Process:
    arguments = (
        *("tests.clients.three_clients", action, "--client", client, "--bootstrap", bootstrap),
        *("--topic", topic, "--records", str(RECORDS), "--out", str(out)),
    )
    return Process([*arguments, *more])


def hashed(client: Process) -> str:
    return client.wait_for("^records=.* sha256=.*", deadline_s=DEADLINE_S)[0]


def first_difference(sent: Path, read: Path) -> str:
    with sent.open() as left, read.open() as right:
        pairs = zip(left, right, strict=False)
        return next((f"{a.strip()} / {b.strip()}" for a, b in pairs if a != b), "the length")
