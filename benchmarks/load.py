"""Load from real clients: librdkafka through confluent-kafka, in this process."""

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stub does not re-export
    AdminClient,
    NewTopic,
)

from benchmarks.options import Options

PARTITIONS = 4
PAYLOADS = 1000
TURN = 250
"""Records in a row for one partition, where they are spread."""
CREATION_S = 300
LARGE: Mapping[str, str | int] = {"linger.ms": 100, "batch.size": 1_048_576}
"""Settings of a producer that fills its batches."""
_QUEUE = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1_048_576}
_SHORT_QUEUE = {"linger.ms": 5, "queue.buffering.max.kbytes": 2048}
_PREFETCH = {"fetch.queue.backoff.ms": 5, "queued.min.messages": 1_000_000}


@dataclass(frozen=True, slots=True)
class Load:
    record_bytes: int
    total_bytes: int
    settings: Mapping[str, str | int]

    @property
    def record_count(self) -> int:
        return self.total_bytes // self.record_bytes


def chosen(loads: Mapping[str, Load], options: Options) -> dict[str, Load]:
    """Those that were asked for, as large as was asked for. Ends the process where none is."""
    found = {
        name: replace(load, total_bytes=int(load.total_bytes * options.scale))
        for name, load in loads.items()
        if name.startswith(options.load)
    }
    if not found:
        raise SystemExit(f"no load of this case begins with {options.load!r}: {', '.join(loads)}")
    return found


def new_topic(
    bootstrap: str,
    *,
    partitions: int = PARTITIONS,
    replicas: int = 1,
    assignment: Sequence[int] = (),
) -> str:
    """Its name, once every broker tells of a leader for each partition.

    `assignment` are the brokers of every partition.
    """
    name = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = NewTopic(name, partitions, replicas)
    if assignment:
        asked = NewTopic(name, partitions, replica_assignment=[list(assignment)] * partitions)
    for future in admin.create_topics([asked], operation_timeout=CREATION_S).values():
        future.result(CREATION_S)
    deadline_s = time.monotonic() + CREATION_S
    for address in bootstrap.split(","):
        while not _is_led(address, name, partitions):
            assert time.monotonic() < deadline_s, f"not all partitions of {name} have leaders"
            time.sleep(0.1)
    return name


def _is_led(address: str, topic: str, partitions: int) -> bool:
    """As one broker tells a client that knows no other."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    shown = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
    return len(shown) == partitions and all(one.leader > 0 for one in shown)


def settings_of_share(share: float) -> Mapping[str, str | int]:
    """Of a producer whose topic is to have its share of each segment.

    A long queue would be sent partition by partition: the smaller topic at once, and then no more.
    """
    return LARGE if share == 1 else {**LARGE, **_SHORT_QUEUE}


def produce_share(
    bootstrap: str,
    topic: str,
    load: Load,
    *,
    share: float,
    spread: int,
    values: Sequence[bytes] = (),
) -> int:
    """Produce the load, of which `topic` gets `share` and a new topic the rest; records of `topic`.

    Both are written all the time, to `spread` partitions each. `values` are used in turn in each;
    without them they are random.
    """
    values = values or _random_values(load)
    others = new_topic(bootstrap, partitions=spread) if share < 1 else ""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **_QUEUE, **load.settings})
    sent = 0
    for number in range(load.record_count):
        is_ours = int((number + 1) * share + 1e-9) > sent
        turn = sent if is_ours else number - sent
        partition, value = turn // TURN % spread, values[turn % len(values)]
        _send(producer, topic if is_ours else others, value, partition)
        sent += is_ours
        if not number & 1023:
            producer.poll(0)
    left = producer.flush(300)
    assert left == 0, f"{left} records were not acknowledged"
    return sent


def _random_values(load: Load) -> list[bytes]:
    return [os.urandom(load.record_bytes // 2).hex().encode() for _ in range(PAYLOADS)]


def _send(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition, on_delivery=_delivered)
            return
        except BufferError:
            producer.poll(0.05)


def produce(
    bootstrap: str, topic: str, load: Load, *, spread: int = 0, values: Sequence[bytes] = ()
) -> float:
    """Produce the whole load with acks=all; wall seconds.

    `values` are used in turn; without them they are random. librdkafka chooses partitions, and at
    full speed leaves some out for long; `spread` over so many instead gives each the same.
    """
    values = values or _random_values(load)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **_QUEUE, **load.settings})
    partition, began = -1, time.perf_counter()
    for number in range(load.record_count):
        if spread and not number % TURN:
            partition = (number // TURN) % spread
        _send(producer, topic, values[number % len(values)], partition)
        if not number & 1023:
            producer.poll(0)
    left = producer.flush(300)
    assert left == 0, f"{left} records were not acknowledged"
    return time.perf_counter() - began


def acknowledged_ms(
    bootstrap: str, topic: str, *, bytes_s: int, goes_on: Callable[[int], bool]
) -> list[float]:
    """Milliseconds from sent to acknowledged of 1 KB records at a steady pace, one by one, sorted.

    `goes_on` is asked before each with how many were sent. The first tenth does not count.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    took_ms: list[float] = []
    value, number = os.urandom(1000), 0

    def delivered(error: KafkaError | None, message: Message) -> None:
        latency_s = message.latency()
        assert error is None and latency_s is not None, error
        took_ms.append(latency_s * 1000)

    began = time.perf_counter()
    while goes_on(number):
        due = began + number * len(value) / bytes_s
        while (wait_s := due - time.perf_counter()) > 0:
            producer.poll(min(wait_s, 0.001))
        producer.produce(topic, value, on_delivery=delivered)
        producer.poll(0)
        number += 1
    left = producer.flush(60)
    assert left == 0, f"{left} records were not acknowledged"
    return sorted(took_ms[len(took_ms) // 10 :])


def trickle(bootstrap: str, topic: str, *, seconds: float, bytes_s: int) -> None:
    """Produce at a steady pace, 1 KB records spread over all partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 100})
    value, began, number = os.urandom(1000), time.monotonic(), 0
    while (elapsed_s := time.monotonic() - began) < seconds:
        while number < elapsed_s * bytes_s / len(value):
            producer.produce(topic, value, on_delivery=_delivered)
            number += 1
        producer.poll(0.01)
    left = producer.flush(60)
    assert left == 0, f"{left} records were not acknowledged"


def consume(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    partitions: int = PARTITIONS,
    places: Mapping[int, int] | None = None,
) -> float:
    """Read `count` records of all partitions from the beginning, or from `places` (partition to
    offset) on. Returns wall seconds, from before the first request.

    The client fetches in threads of its own from `assign` on: a thread that gets the interpreter
    late would find all of it in memory.
    """
    began, found = time.perf_counter(), 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            **_PREFETCH,
        }
    )
    places = dict.fromkeys(range(partitions), 0) if places is None else places
    consumer.assign([TopicPartition(topic, number, at) for number, at in places.items()])
    while found < count:
        messages = consumer.consume(min(10_000, count - found), 10.0)
        assert messages, f"only {found} of {count} records came"
        found += len(messages)
    took_s = time.perf_counter() - began
    consumer.close()
    return took_s


def _delivered(error: KafkaError | None, _message: Message) -> None:
    assert error is None, error
