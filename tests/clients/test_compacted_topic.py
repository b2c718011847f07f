"""Clients rebuild state from a topic whose keys were compacted, whose segments are gone.

The last records of the topic are tombstones that went too: a client still reaches the end.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest

from benchmarks.peers.moved import move_all
from logstore.cli.main import main
from tests.clients.rebuilt_state import RebuiltState
from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker, stop
from tests.scenarios.harness.process import Process

pytestmark = pytest.mark.clients

TOPIC, KEYS, ROUNDS, ROUND_RECORDS = "state", 50, 3, 400
CONFIGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "0",
    "logstore.clean.dead.ratio": "0",
}
DEADLINE_S = 60.0


class Cleaned(NamedTuple):
    bootstrap: str
    state: RebuiltState
    before: RebuiltState
    """As a client read it before anything was compacted."""
    end: int
    """Offset after the last record that was written."""


def produce(bootstrap: str, rng: random.Random, state: RebuiltState) -> int:
    """Values and tombstones, at the end tombstones alone; into `state` what they amount to."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    records: list[tuple[bytes, bytes | None]] = []
    for number in range(ROUND_RECORDS):
        value = None if rng.random() < 0.2 else b"%d" % number
        records.append((b"key-%d" % rng.randrange(KEYS), value))
    records += [(b"key-%d" % number, None) for number in range(5)]
    for key, value in records:
        producer.produce(TOPIC, value=value, key=key, partition=0)
        state.apply(key, value)
    assert producer.flush(DEADLINE_S) == 0
    return len(records)


def read_by_librdkafka(bootstrap: str, end: int) -> RebuiltState:
    """From offset 0 to the end that the partition reports."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    state = RebuiltState()
    while True:
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
            assert message.offset() == end
            consumer.close()
            return state
        key, value = message.key(), message.value()
        assert isinstance(key, bytes) and (value is None or isinstance(value, bytes))
        state.apply(key, value)


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cleaned]:
    log: Path = tmp_path_factory.mktemp("compacted") / "log"
    rng, count = random.Random(1), 0
    state = RebuiltState()
    before = RebuiltState()
    for number in range(ROUNDS):
        with start_broker(str(log)) as broker:
            if not number:
                create_topic(bootstrap_of(broker), TOPIC, 1, CONFIGS)
            count += produce(bootstrap_of(broker), rng, state)
            before = read_by_librdkafka(bootstrap_of(broker), count)
            stop(broker)
        assert main(["compact", "--url", str(log), "--now"]) == 0
    move_all(log)
    assert main(["compact", "--url", str(log), "--now"]) == 0
    with start_broker(str(log)) as broker:
        yield Cleaned(bootstrap_of(broker), state, before, count)
        stop(broker)


def test_the_state_was_the_same_before_all_of_it_was_compacted(cleaned: Cleaned) -> None:
    assert cleaned.before.values == cleaned.state.values


def test_librdkafka_rebuilds_it_and_reports_the_end(cleaned: Cleaned) -> None:
    read = read_by_librdkafka(cleaned.bootstrap, cleaned.end)

    assert read.values == cleaned.state.values
    assert read.count == len(read.values)  # nothing else is left


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_python_clients_rebuild_it_and_their_position_is_the_end(
    cleaned: Cleaned, client: str
) -> None:
    where = ("--bootstrap", cleaned.bootstrap, "--topic", TOPIC, "--end", str(cleaned.end))
    with Process(("tests.clients.end_stories", client, *where)) as story:
        said = story.wait_for("^state (.*)$", deadline_s=DEADLINE_S)
        assert said[1] == cleaned.state.digest()
        assert story.wait() == 0
