"""Kafka Connect (distributed) and Kafka Streams, unchanged, against brokers of ours."""

import json
import os
import random
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.java_users import user_command, why_no_users
from tests.clients.two_brokers import until
from tests.scenarios.harness.fleet import directory_place, fleet
from tests.servers.child import free_port, running_child

pytestmark = pytest.mark.clients

BROKERS = int(os.environ.get("BROKERS", "3"))
DEADLINE_S = 120.0
LINES = 500
WORDS = 7
FILES = "org.apache.kafka.connect.file.FileStream"
COUNTED = "streams-wordcount-output"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why_no_users():
        pytest.skip("Kafka Connect and Streams need Java 17 and Maven, once")
    place = directory_place(tmp_path_factory.mktemp("users"))
    more = ("--set", "group.initial.rebalance.delay.ms=200")
    with fleet(place, BROKERS, random.Random(), swallowed=False, more=more) as brokers:
        yield brokers.bootstrap


def test_connect_copies_a_file_through_a_topic_into_another(bootstrap: str, tmp_path: Path) -> None:
    source, sink, port = tmp_path / "in.txt", tmp_path / "out.txt", free_port()
    worker = tmp_path / "worker.properties"
    worker.write_text(worker_properties(bootstrap, port))
    text = "".join(f"line {number}\n" for number in range(LINES))
    source.write_text(text)
    command = user_command("org.apache.kafka.connect.cli.ConnectDistributed", str(worker))
    with running_child(command, port, tmp_path / "first.log"):
        put(port, "source", {"connector.class": f"{FILES}SourceConnector", "file": str(source)})
        put(port, "sink", {"connector.class": f"{FILES}SinkConnector", "file": str(sink)})
        until(lambda: sink.exists() and sink.read_text() == text)
    more = "".join(f"line {number}\n" for number in range(LINES, 2 * LINES))
    with source.open("a") as grows:
        grows.write(more)
    # Connectors, and how far they were, are in topics: a worker that starts again goes on there.
    with running_child(command, port, tmp_path / "second.log"):
        until(lambda: sink.read_text() == text + more)


def test_a_word_count_by_streams_is_right_after_it_was_killed(
    bootstrap: str, tmp_path: Path
) -> None:
    topics = [NewTopic("streams-plaintext-input", 2, 1), NewTopic(COUNTED, 2, 1)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(topics).values():
        made.result(DEADLINE_S)
    settings = tmp_path / "streams.properties"
    settings.write_text(
        f"bootstrap.servers={bootstrap}\nstate.dir={tmp_path}/state\n"
        "commit.interval.ms=500\nconsumer.session.timeout.ms=6000\n"
    )
    main = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
    command = [*user_command(main, str(settings))]
    say_words(bootstrap, 0)
    with streams(command, tmp_path / "first.log") as first:
        until_counted(bootstrap, words_of(LINES))
        first.kill()
        first.wait()
    say_words(bootstrap, LINES)
    with streams(command, tmp_path / "second.log"):
        # What was counted when it was killed may be counted again; nothing is left out.
        until_counted(bootstrap, words_of(2 * LINES))


def worker_properties(bootstrap: str, port: int) -> str:
    lines = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.topic": "connect-offsets",
        "config.storage.topic": "connect-configs",
        "status.storage.topic": "connect-status",
        "offset.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.flush.interval.ms": "1000",
        "listeners": f"http://127.0.0.1:{port}",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def put(port: int, name: str, settings: Mapping[str, str]) -> None:
    topic = "topics" if name == "sink" else "topic"
    body = {**settings, "tasks.max": "1", topic: "connected"}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/connectors/{name}/config",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )

    def is_done() -> bool:
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return bool(answer.status < 300)
        except urllib.error.HTTPError as error:
            error.close()  # it has yet to start, or rebalances
            return False

    until(is_done)


@contextmanager
def streams(command: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as child:
        try:
            yield child
        finally:
            child.terminate()


def say_words(bootstrap: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + LINES):
        producer.produce("streams-plaintext-input", f"word{number % WORDS}", str(number))
    assert producer.flush(DEADLINE_S) == 0


def words_of(lines: int) -> Counter[str]:
    return Counter(f"word{number % WORDS}" for number in range(lines))


def until_counted(bootstrap: str, wanted: Counter[str]) -> None:
    """Read the counts until each word has been counted so often; the last one of each prevails."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "counts"})
    consumer.assign([TopicPartition(COUNTED, number, 0) for number in range(2)])
    counts: Counter[str] = Counter()

    def enough() -> bool:
        for message in consumer.consume(1000, timeout=0.5):
            key, value = message.key(), message.value()
            assert message.error() is None
            assert key is not None
            assert value is not None
            counts[bytes(key).decode()] = int.from_bytes(value, "big")
        return counts >= wanted

    until(enough)
    consumer.close()
