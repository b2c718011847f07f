"""franz-go, Sarama and KafkaJS, unchanged: each reads what others write, groups rebalance."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.other_languages import CODECS, program_of, why_not
from tests.scenarios.harness.fleet import directory_place, fleet
from tests.scenarios.harness.process import Process, poll_until

pytestmark = pytest.mark.clients

BROKERS, PARTITIONS, COUNT = 3, 4, 400
SOONER = ("--set", "group.initial.rebalance.delay.ms=200")
DEADLINE_S = 90.0
READ = r"^read (\d+) (\d+) k(\d+) v(\d+) (\S+)$"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = directory_place(tmp_path_factory.mktemp("languages"))
    with fleet(place, BROKERS, random.Random(), swallowed=False, more=SOONER) as brokers:
        yield brokers.bootstrap


@pytest.fixture(params=CODECS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if why_not(name):
        pytest.skip("clients in Go and for Node need these and their registries, once")
    return name


def test_what_one_writes_in_each_of_its_codecs_others_read(bootstrap: str, client: str) -> None:
    topic = f"{client}-codecs"
    for number, codec in enumerate(CODECS[client]):
        produce(client, bootstrap, topic, codec, number * COUNT, COUNT)
    total = len(CODECS[client]) * COUNT
    theirs = {reader: read_all(reader, bootstrap, topic, total) for reader in readers_of(client)}
    ours = read_by_librdkafka(bootstrap, topic, total)
    assert sorted(number for number, _ in ours.values()) == list(range(total))
    assert {header for _, header in ours.values()} == {client}
    for reader, records in theirs.items():
        assert records == ours, reader


def test_a_second_member_joins_and_a_third_goes_on_where_both_ended(
    bootstrap: str, client: str
) -> None:
    topic, group = f"{client}-group", f"{client} members"
    produce(client, bootstrap, topic, "none", 0, COUNT)
    with member(client, bootstrap, topic, group) as first:
        wait_for_numbers(range(COUNT), first)
        with member(client, bootstrap, topic, group) as second:
            wait_for_both(bootstrap, group)
            produce(client, bootstrap, topic, "gzip", COUNT, COUNT)
            wait_for_numbers(range(COUNT, 2 * COUNT), first, second)
            stop(second)
        stop(first)
    assert committed(bootstrap, group, topic) == ends(bootstrap, topic)
    produce(client, bootstrap, topic, "none", 2 * COUNT, COUNT)
    with member(client, bootstrap, topic, group) as third:
        wait_for_numbers(range(2 * COUNT, 3 * COUNT), third)
        stop(third)
        assert numbers(third) == set(range(2 * COUNT, 3 * COUNT))


def produce(client: str, bootstrap: str, topic: str, codec: str, first: int, count: int) -> None:
    arguments = ("produce", bootstrap, topic, codec, str(first), str(count))
    with Process(arguments, program=program_of(client)) as producer:
        assert producer.wait(deadline_s=DEADLINE_S) == 0, producer.lines


def member(client: str, bootstrap: str, topic: str, group: str) -> Process:
    return Process(("consume", bootstrap, topic, group), program=program_of(client), listens=True)


def stop(process: Process) -> None:
    process.say("stop")
    assert process.wait(deadline_s=DEADLINE_S) == 0, process.lines


def readers_of(writer: str) -> list[str]:
    """Clients that have its codecs."""
    able = [name for name, codecs in CODECS.items() if set(CODECS[writer]) <= set(codecs)]
    return [name for name in able if why_not(name) is None]


Placed = dict[tuple[int, int], tuple[int, str]]
"""Number and header by partition and offset."""


def records_of(*processes: Process) -> Counter[tuple[int, int, int, str]]:
    found = [re.match(READ, line) for process in processes for line in process.said]
    return Counter(
        (int(one[1]), int(one[2]), int(one[3]), one[5])
        for one in found
        if one is not None and one[3] == one[4]
    )


def numbers(*processes: Process) -> set[int]:
    return {number for _, _, number, _ in records_of(*processes)}


def read_all(client: str, bootstrap: str, topic: str, count: int) -> Placed:
    """By a group of its own."""
    with member(client, bootstrap, topic, f"{client} reads {topic}") as reader:
        poll_until(lambda: len(numbers(reader)) >= count, reader)
        stop(reader)
        return {(one[0], one[1]): (one[2], one[3]) for one in records_of(reader)}


def read_by_librdkafka(bootstrap: str, topic: str, count: int) -> Placed:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    read: Placed = {}
    while len(read) < count:
        message = consumer.poll(DEADLINE_S)
        assert message is not None and message.error() is None, message
        partition, offset, value = message.partition(), message.offset(), message.value()
        headers: Any = message.headers()
        assert partition is not None and offset is not None and value is not None
        read[partition, offset] = int(value[1:]), dict(headers)["by"].decode()
    consumer.close()
    return read


def wait_for_numbers(wanted: range, *processes: Process) -> None:
    """Each was read by one of them."""
    poll_until(lambda: set(wanted) <= numbers(*processes), *processes)


def wait_for_both(bootstrap: str, group: str) -> None:
    """Two members have partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def both_have() -> bool:
        described = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
        shares = [len(one.assignment.topic_partitions) for one in described.members]
        return len(shares) == 2 and all(shares) and sum(shares) == PARTITIONS

    poll_until(both_have)


def committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    asked = [confluent_kafka.TopicPartition(topic, one) for one in range(PARTITIONS)]
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = {one.partition: one.offset for one in consumer.committed(asked, DEADLINE_S)}
    consumer.close()
    return found


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    found = {}
    for one in range(PARTITIONS):
        marks = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, one))
        assert marks is not None
        found[one] = marks[1]
    consumer.close()
    return found
