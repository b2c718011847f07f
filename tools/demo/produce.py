"""Sends flights to the broker with confluent-kafka, an ordinary Kafka client."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tools.demo.flights import Flight, FlightId
from tools.demo.partitioner import Partitioner

TOPIC = "flights"
PARTITIONS = 4
SEQ_HEADER = "seq"
"""Holds, in decimal digits, the number of the record in its partition."""

TIMEOUT_S = 120.0
QUIET = {"log_level": 0}
"""No lines of its own: what matters comes back as an exception or with a record."""

REPORT_EVERY = 1_000


class ProduceFailed(Exception): ...


@dataclass(frozen=True, slots=True)
class Produced:
    """Records sent, and acknowledged."""

    records: int
    value_bytes: int
    seconds: float


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        created = admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
        created[TOPIC].result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            raise ProduceFailed(
                f"the log has a topic {TOPIC} already, of an earlier run: name another log and "
                "registry, or delete the topic"
            ) from error
        raise ProduceFailed(f"cannot create the topic: {error}") from error


def produce(
    bootstrap: str,
    flights: Iterable[Flight],
    leave_out: FlightId | None,
    report: Callable[[int], None],
) -> Produced:
    """All `flights` but the one to leave out. Raises `ProduceFailed` unless all are acknowledged.

    `report` is called now and then with the number of further ones sent.
    """
    failures: list[KafkaError] = []

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(_settings(bootstrap))
    partitioner, numbers = Partitioner(PARTITIONS), [0] * PARTITIONS
    count = size = 0
    began = time.perf_counter()
    for flight in flights:
        partition = partitioner.choose(flight.key)
        number = numbers[partition]
        numbers[partition] += 1
        if flight.id == leave_out:
            continue
        _send(producer, flight, partition, [(SEQ_HEADER, b"%d" % number)], acknowledged)
        count += 1
        size += len(flight.value)
        if count % REPORT_EVERY == 0:
            producer.poll(0)
            report(REPORT_EVERY)
    left = producer.flush(TIMEOUT_S)
    seconds = time.perf_counter() - began
    if failures or left:
        reason = failures[0].str() if failures else "no answer in time"
        raise ProduceFailed(f"{len(failures) + left} of {count} records not acknowledged: {reason}")
    report(count % REPORT_EVERY)
    return Produced(count, size, seconds)


def _settings(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": "lz4",
        "linger.ms": 20,
        "message.timeout.ms": int(TIMEOUT_S * 1000),
        **QUIET,
    }


def _send(
    producer: Producer,
    flight: Flight,
    partition: int,
    headers: list[tuple[str, str | bytes | None]],
    acknowledged: Callable[[KafkaError | None, Message], None],
) -> None:
    while True:
        try:
            producer.produce(
                TOPIC,
                flight.value,
                flight.key,
                partition,
                on_delivery=acknowledged,
                headers=headers,
            )
            return
        except BufferError:  # as much is on its way as may be
            producer.poll(0.1)
