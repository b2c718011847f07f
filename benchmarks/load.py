"""Load from real clients: librdkafka through confluent-kafka, in this process."""

import os
import time
import uuid
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stub does not re-export
    AdminClient,
    NewTopic,
)

PARTITIONS = 4
PAYLOADS = 1000
_QUEUE = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1_048_576}
_PREFETCH = {"fetch.queue.backoff.ms": 5, "queued.min.messages": 1_000_000}


@dataclass(frozen=True, slots=True)
class Load:
    record_bytes: int
    total_bytes: int
    settings: dict[str, str | int]

    @property
    def record_count(self) -> int:
        return self.total_bytes // self.record_bytes


def new_topic(bootstrap: str, *, partitions: int = PARTITIONS) -> str:
    name = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(30)
    return name


def produce(bootstrap: str, topic: str, load: Load) -> float:
    """Produce the whole load with acks=all, incompressible values; wall seconds."""
    values = [os.urandom(load.record_bytes // 2).hex().encode() for _ in range(PAYLOADS)]
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **_QUEUE, **load.settings})
    began = time.perf_counter()
    for number in range(load.record_count):
        while True:
            try:
                producer.produce(topic, values[number % PAYLOADS], on_delivery=_delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if not number & 1023:
            producer.poll(0)
    left = producer.flush(300)
    assert left == 0, f"{left} records were not acknowledged"
    return time.perf_counter() - began


def consume(bootstrap: str, topic: str, count: int, settings: dict[str, str | int]) -> float:
    """Read `count` records of all partitions from the beginning; wall seconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            **_PREFETCH,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    began, found = time.perf_counter(), 0
    while found < count:
        messages = consumer.consume(10_000, 10.0)
        assert messages, f"only {found} of {count} records came"
        found += len(messages)
    took_s = time.perf_counter() - began
    consumer.close()
    return took_s


def _delivered(error: KafkaError | None, _message: Message) -> None:
    assert error is None, error
