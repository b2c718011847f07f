"""librdkafka's idempotent producers while every partition they write to moves again and again.

After an answer that a sequence is broken they take a new epoch for all partitions, and send in it
again what others have stored but not acknowledged yet: doubled records (librdkafka #4953). So a
change of leaders alone must never be answered as a broken sequence.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logstore.records.batch import check_batch
from logstore.records.decode import decode_records
from logstore.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.clients.two_brokers import known_everywhere, two_brokers
from tools.full_wire import Connection

pytestmark = pytest.mark.clients

FETCH, METADATA, REASSIGN = 1, 3, 45
TOPIC, PARTITIONS, MOVES, PRODUCERS = "moved", 30, 12, 4
IN_QUEUE_MAX = 3_000
DEADLINE_S = 60.0
PAYLOAD_BYTES_MAX = 1 << 20
SETTINGS = {
    "enable.idempotence": True,
    "linger.ms": 0,
    "batch.num.messages": 3,  # so that a partition has several batches on their way
    "topic.metadata.refresh.interval.ms": 100,
    "log_level": 0,
}


class Sender:
    """One producer of values `<producer> <number>`, whose numbers count up in each partition."""

    def __init__(self, bootstrap: str, name: int) -> None:
        self.sent = [0] * PARTITIONS
        self.errors: list[KafkaError] = []
        self.name = name
        self._producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS})

    def send(self) -> None:
        """A value to each partition, if there is room."""
        if len(self._producer) < IN_QUEUE_MAX:
            for partition in range(PARTITIONS):
                value = b"%d %d" % (self.name, self.sent[partition])
                self._producer.produce(TOPIC, value, partition=partition, on_delivery=self._report)
                self.sent[partition] += 1
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)


def test_a_producer_whose_partitions_move_keeps_its_epoch_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    with two_brokers(tmp_path) as bootstrap, connected(bootstrap) as client:
        assigned = [[1]] * PARTITIONS
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        new = NewTopic(TOPIC, len(assigned), replica_assignment=assigned)
        admin.create_topics([new])[TOPIC].result(DEADLINE_S)
        known_everywhere(bootstrap, TOPIC, PARTITIONS)
        senders = [Sender(bootstrap, name) for name in range(PRODUCERS)]
        for move in range(MOVES):
            target = 2 - move % 2
            reassign(client, target)
            while set(leaders(client).values()) != {target}:
                for _ in range(20):
                    for sender in senders:
                        sender.send()
        for sender in senders:
            sender.flush()
            assert sender.errors == []

        found, epochs = stored(bootstrap)

    assert epochs == {0}
    for sender in senders:
        for partition, values in enumerate(found):
            own = [value for value in values if value.startswith(b"%d " % sender.name)]
            assert own == [b"%d %d" % (sender.name, n) for n in range(sender.sent[partition])]


@contextmanager
def connected(bootstrap: str) -> Iterator[Connection]:
    host, _, port = bootstrap.rpartition(":")
    with Connection.open(host, int(port), DEADLINE_S) as connection:
        yield connection


def reassign(client: Connection, target: int) -> None:
    """Ask that every partition be led by `target`."""
    moved = [ReassignablePartition(number, [target]) for number in range(PARTITIONS)]
    topics = [ReassignableTopic(TOPIC, moved)]
    answer = client.call(REASSIGN, AlterPartitionReassignmentsRequest(topics=topics), 0)
    codes = {one.error_code for topic in answer.responses for one in topic.partitions}
    assert (answer.error_code, codes) == (0, {0})


def leaders(client: Connection) -> dict[int, int]:
    request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)
    (topic,) = client.call(METADATA, request, 9).topics
    return {one.partition_index: one.leader_id for one in topic.partitions}


def stored(bootstrap: str) -> tuple[list[list[bytes]], set[int]]:
    """The values of each partition in order, and every producer epoch."""
    with connected(bootstrap) as client:
        led_by = leaders(client)
        brokers = client.call(METADATA, MetadataRequest([]), 9).brokers
    addresses = {one.node_id: f"{one.host}:{one.port}" for one in brokers}
    found, epochs = [], set()
    for partition in range(PARTITIONS):
        values: list[bytes] = []
        found.append(values)
        with connected(addresses[led_by[partition]]) as client:
            while batches := fetch(client, partition, len(values)):
                at = 0
                while at < len(batches):
                    header = check_batch(batches, at, len(batches))
                    epochs.add(header.producer_epoch)
                    end = at + header.size_bytes
                    records = decode_records(batches[at:end], max_bytes=PAYLOAD_BYTES_MAX)
                    values += [bytes(record.value or b"") for record in records]
                    at = end
    return found, epochs


def fetch(client: Connection, partition: int, offset: int) -> memoryview:
    wanted = FetchPartition(partition, -1, offset, partition_max_bytes=1 << 20)
    asked = FetchRequest(-1, 0, 1, 1 << 20, topics=[FetchTopic(TOPIC, bytes(16), [wanted])])
    (answer,) = client.call(FETCH, asked, 12).responses[0].partitions
    assert answer.error_code == 0
    return memoryview(answer.records or b"")
