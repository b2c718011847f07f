"""Reads one topic, writes another; every input has its output, at least once.

    python examples/consumers/read_process_write.py --bootstrap HOST:PORT \\
        --topic orders --output orders-checked --group checker

Output and commit are two steps: there are no transactions yet, which would make them one. A death
between the two writes a batch again. So that readers can tell, each output bears its input's offset
as its key, and goes to the partition of the same number (both topics need the same count). Repeats
then come in order: a reader keeps the highest offset per partition and drops what is not above it.
"""

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer

TAKE_S = 0.5  # a batch that is not full waits so long
FLUSH_S = 60.0


def main() -> None:
    options = parse()
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            # With a name of its own, a member that starts again gets its partitions back at once.
            **({"group.instance.id": options.instance} if options.instance else {}),
            # Left to itself the client commits every 5 s, also input whose output is on its way.
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    # Idempotent: the client's own retries double nothing and keep the order. It does not help
    # against a second run of the program, whose producer is another one.
    producer = Producer({"bootstrap.servers": options.bootstrap, "enable.idempotence": True})
    # With a callback, partitions are given away inside `consume` alone: between two batches.
    consumer.subscribe([options.topic], on_revoke=lambda *_: None)
    stopping = stop_on_signals()
    try:
        while not stopping.is_set():
            batch = list(records(consumer.consume(options.batch_records, timeout=TAKE_S)))
            if batch:
                write(producer, options.output, batch)
                say(f"written {len(batch)}")
                commit(consumer)
    finally:
        consumer.close()  # leaves the group, unless it has an instance id: others take over at once


def process(value: bytes) -> bytes:
    """The work on one record."""
    return value.upper()


def write(producer: Producer, output: str, batch: list[Message]) -> None:
    """Until all of it is acknowledged. Raises otherwise: then nothing of it is committed."""
    failures: list[Any] = []

    def on_delivery(error: Any, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for record in batch:
        place = record.partition()
        assert place is not None
        value = process(record.value() or b"")
        key = str(record.offset())
        producer.produce(output, value, key, partition=place, on_delivery=on_delivery)
    left = producer.flush(FLUSH_S)
    if failures:
        raise KafkaException(failures[0])
    if left:
        raise TimeoutError(f"not acknowledged: records={left}")


def commit(consumer: Consumer) -> None:
    """Last, when the output is stored. Committed before, a death would lose the batch."""
    try:
        consumer.commit(asynchronous=False)  # waits, so that one batch at most is not committed
    except KafkaException as error:
        # Refused: another member has the partitions, and writes this batch again. Unanswered:
        # the next commit covers this batch too, since it says how far we have come.
        sys.stderr.write(f"not committed, going on: {error}\n")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def records(messages: list[Message]) -> Iterator[Message]:
    for message in messages:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        yield message


def stop_on_signals() -> threading.Event:
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="host:port of one or more brokers")
    parser.add_argument("--topic", required=True, help="what is read")
    parser.add_argument("--output", required=True, help="topic that is written, as many partitions")
    parser.add_argument("--group", required=True)
    parser.add_argument("--instance", help="name of this member, kept when it starts again")
    parser.add_argument("--batch-records", type=int, default=500, help="most that a death repeats")
    return parser.parse_args()


if __name__ == "__main__":
    main()
