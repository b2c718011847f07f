"""Writes and reads the same records by any of three Kafka clients, a process each.

    python -m tests.clients.three_clients ACTION --client NAME --bootstrap HOST:PORT --topic T
        --records N --out FILE [--codec none|gzip|snappy|lz4|zstd]

Clients are librdkafka (confluent-kafka), kafka-python and aiokafka. FILE gets a line per record, by
partition and offset; the digest of all that a record is goes to standard output:

    records=<n> sha256=<hex>

A process of its own per client: these libraries start threads, and warn of what is not ours.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka

from tests.clients.hashed_records import PARTITIONS, Placed, Sent, digest, fit, in_order, records

DEADLINE_S = 300.0


def produce_librdkafka(bootstrap: str, topic: str, codec: str, sent: list[Sent]) -> list[Placed]:
    placed: list[Placed] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
    )

    def reporter(record: Sent) -> Callable[..., None]:
        def report(error: object, message: confluent_kafka.Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            placed.append(Placed(offset, record))

        return report

    for record in sent:
        while True:
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=list(record.headers),
                    on_delivery=reporter(record),
                )
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    return placed


def produce_kafka_python(bootstrap: str, topic: str, codec: str, sent: list[Sent]) -> list[Placed]:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
    )
    try:
        futures = [
            producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in sent
        ]
        producer.flush(DEADLINE_S)
        return [
            Placed(future.get(0).offset, record)
            for future, record in zip(futures, sent, strict=True)
        ]
    finally:
        producer.close()


def produce_aiokafka(bootstrap: str, topic: str, codec: str, sent: list[Sent]) -> list[Placed]:
    async def produce() -> list[Placed]:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        ) as producer:
            futures = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                )
                for record in sent
            ]
            answers = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)
        return [Placed(answer.offset, record) for answer, record in zip(answers, sent, strict=True)]

    return asyncio.run(produce())


def consume_librdkafka(bootstrap: str, topic: str, count: int) -> list[Placed]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign(
        [
            confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
            for number in range(PARTITIONS)
        ]
    )
    placed: list[Placed] = []
    while len(placed) < count:
        messages = consumer.consume(min(1000, count - len(placed)), timeout=DEADLINE_S)
        assert messages, f"only {len(placed)} of {count} came"
        placed += [_placed_of_librdkafka(message) for message in messages]
    consumer.close()
    return placed


def _placed_of_librdkafka(message: Any) -> Placed:
    assert message.error() is None, message.error()
    record = Sent(
        message.partition(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
    return Placed(message.offset(), record)


def consume_kafka_python(bootstrap: str, topic: str, count: int) -> list[Placed]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False
    )
    try:
        partitions = [kafka.TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        placed: list[Placed] = []
        while len(placed) < count:
            polled = consumer.poll(timeout_ms=int(DEADLINE_S * 1000))
            assert polled, f"only {len(placed)} of {count} came"
            for messages in polled.values():
                placed += [_placed(message) for message in messages]
        return placed
    finally:
        consumer.close()


def consume_aiokafka(bootstrap: str, topic: str, count: int) -> list[Placed]:
    async def consume() -> list[Placed]:
        placed: list[Placed] = []
        async with aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False
        ) as consumer:
            partitions = [aiokafka.TopicPartition(topic, number) for number in range(PARTITIONS)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            while len(placed) < count:
                polled = await consumer.getmany(timeout_ms=int(DEADLINE_S * 1000))
                assert polled, f"only {len(placed)} of {count} came"
                for messages in polled.values():
                    placed += [_placed(message) for message in messages]
        return placed

    return asyncio.run(consume())


def _placed(message: aiokafka.ConsumerRecord) -> Placed:
    """kafka-python's records and aiokafka's have the same fields."""
    headers = tuple((name, value) for name, value in message.headers)
    record = Sent(message.partition, message.timestamp, message.key, message.value, headers)
    return Placed(message.offset, record)


PRODUCERS = {
    "librdkafka": produce_librdkafka,
    "kafka-python": produce_kafka_python,
    "aiokafka": produce_aiokafka,
}
CONSUMERS = {
    "librdkafka": consume_librdkafka,
    "kafka-python": consume_kafka_python,
    "aiokafka": consume_aiokafka,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("produce", "consume"))
    parser.add_argument("--client", choices=PRODUCERS, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.action == "produce":
        written = records(options.records, seed=len(options.topic))
        sent = [fit(record, options.client) for record in written]
        placed = PRODUCERS[options.client](options.bootstrap, options.topic, options.codec, sent)
    else:
        placed = CONSUMERS[options.client](options.bootstrap, options.topic, options.records)
    with options.out.open("w") as out:
        out.writelines(f"{item}\n" for item in in_order(placed))
    sys.stdout.write(f"records={len(placed)} sha256={digest(placed)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
