"""Clients write a topic, and read it from the beginning: a process for each story.

    python -m tests.clients.history_stories STORY --bootstrap HOST:PORT --records FILE [--first N]

`write` adds to FILE what was acknowledged, as JSON lines; the others read the topic to its end and
demand just that. Ends with the line `done`.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka

TOPIC, PARTITIONS, COUNT = "old", 3, 2_000
DEADLINE_S = 60.0
Headers = list[tuple[str, str | bytes | None]]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def write(bootstrap: str, records: Path, first: int) -> None:
    with records.open("a") as out:

        def delivered(
            headers: Headers, error: confluent_kafka.KafkaError | None, message: Any
        ) -> None:
            assert error is None, error  # and the report itself has no headers
            shown = [[name, text(value)] for name, value in headers]
            out.write(json.dumps([*shown_by_confluent(message)[:-1], shown]) + "\n")

        producers = [
            confluent_kafka.Producer(
                {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5}
            )
            for codec in CODECS
        ]
        for number in range(first, first + COUNT):
            producer = producers[number // 50 % len(CODECS)]
            headers: Headers = [("n", b"%d" % number), ("n", None), ("", b"\xff")]
            del headers[number % 4 :]
            producer.produce(
                TOPIC,
                None if number % 7 == 0 else b"value %d " % number * (number % 40),
                None if number % 5 == 0 else b"key %d" % (number % 30),
                partition=number % PARTITIONS,
                timestamp=1_600_000_000_000 + number * 37 % 10_000,
                headers=headers,
                on_delivery=partial(delivered, headers),
            )
            if number % 50 == 49:
                assert producer.flush(DEADLINE_S) == 0
        for producer in producers:
            assert producer.flush(DEADLINE_S) == 0


def read_by_confluent(bootstrap: str) -> Iterator[list[Any]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    places = [confluent_kafka.TopicPartition(TOPIC, n, 0) for n in range(PARTITIONS)]
    left = {one.partition: consumer.get_watermark_offsets(one)[1] for one in places}
    consumer.assign(places)
    while left:
        message = consumer.poll(DEADLINE_S)
        assert message is not None and message.error() is None, message and message.error()
        partition, offset, *_ = shown = shown_by_confluent(message)
        yield shown
        if offset + 1 == left[partition]:
            del left[partition]
    consumer.close()


def shown_by_confluent(message: Any) -> list[Any]:
    headers = [[name, text(value)] for name, value in message.headers() or []]
    key, value, timestamp = message.key(), message.value(), message.timestamp()[1]
    return [message.partition(), message.offset(), timestamp, text(key), text(value), headers]


def read_by_kafka_python(bootstrap: str) -> Iterator[list[Any]]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=int(DEADLINE_S * 1000)
    )
    places = [kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    left = {one.partition: end for one, end in consumer.end_offsets(places).items()}
    consumer.assign(places)
    consumer.seek_to_beginning()
    for one in consumer:
        headers = [[name, text(value)] for name, value in one.headers]
        yield [one.partition, one.offset, one.timestamp, text(one.key), text(one.value), headers]
        if one.offset + 1 == left[one.partition]:
            del left[one.partition]
        if not left:
            break
    consumer.close()


def text(data: str | bytes | None) -> str | None:
    return data.decode("latin-1") if isinstance(data, bytes) else data


def check(found: Iterator[list[Any]], records: Path) -> None:
    wanted = [json.loads(line) for line in records.read_text().splitlines()]
    read = sorted(found, key=lambda one: one[:2])
    wanted.sort(key=lambda one: one[:2])
    wrong = [pair for pair in zip(read, wanted, strict=False) if pair[0] != pair[1]]
    assert len(read) == len(wanted) and not wrong, f"{len(read)} {len(wanted)} {wrong[:1]}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("story", choices=("write", "confluent", "kafka-python"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    if options.story == "write":
        write(options.bootstrap, options.records, options.first)
    elif options.story == "confluent":
        check(read_by_confluent(options.bootstrap), options.records)
    else:
        check(read_by_kafka_python(options.bootstrap), options.records)
    sys.stdout.write("done\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
