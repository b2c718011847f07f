"""Reads a topic so that no record is missed; some may be worked on twice.

    python examples/consumers/at_least_once.py --bootstrap HOST:PORT --topic orders --group stock

For work that may be done again: setting a row by its key, adding to a set. Most consumers are of
this kind. docs/consumers.md says what a death costs. Ends well on SIGTERM and Ctrl-C.
"""

import argparse
import signal
import sys
import threading
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, Message

TAKE_S = 0.5  # a batch that is not full waits so long


def main() -> None:
    options = parse()
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            # With a name of its own, a member that starts again gets its partitions back at once.
            **({"group.instance.id": options.instance} if options.instance else {}),
            # Left to itself the client commits every 5 s, wherever the work may be.
            "enable.auto.commit": False,
            # Counts while the group has committed nothing, or after its offsets have expired;
            # "latest", the default, would miss what was written before the first start.
            "auto.offset.reset": "earliest",
        }
    )
    # With a callback, partitions are given away inside `consume` alone: between two batches.
    consumer.subscribe([options.topic], on_revoke=lambda *_: None)
    stopping = stop_on_signals()
    try:
        while not stopping.is_set():
            batch = list(records(consumer.consume(options.batch_records, timeout=TAKE_S)))
            for record in batch:
                work(record)
            if batch:
                commit(consumer)
    finally:
        consumer.close()  # leaves the group, unless it has an instance id: others take over at once


def commit(consumer: Consumer) -> None:
    """First the work, on everything that `consume` has given so far; only then the commit.

    A member that dies before it has committed nothing: these records come again, to the next one.
    """
    try:
        consumer.commit(asynchronous=False)  # waits, so that one batch at most is not committed
    except KafkaException as error:
        # Refused: another member has the partitions, and will do this batch again. Unanswered:
        # the next commit covers this batch too, since it says how far the work has come.
        sys.stderr.write(f"not committed, going on: {error}\n")


def work(record: Message) -> None:
    """The work on one record; here it is shown."""
    sys.stdout.write(f"{record.partition()} {record.offset()} {(record.value() or b'').decode()}\n")
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
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--instance", help="name of this member, kept when it starts again")
    parser.add_argument("--batch-records", type=int, default=500, help="most that a death repeats")
    return parser.parse_args()


if __name__ == "__main__":
    main()
