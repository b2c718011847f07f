"""Reads a topic so that no record is worked on twice; some may be missed.

    python examples/consumers/at_most_once.py --bootstrap HOST:PORT --topic orders --group mailer

For work that is worse done twice than not at all: sending mail, ringing a bell. docs/consumers.md
says what a death costs. Ends well on SIGTERM and Ctrl-C.
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
            # Counts while the group has committed nothing, and again if its offsets have expired:
            # then everything comes again. "error" rules that out, once there is a first commit.
            "auto.offset.reset": "earliest",
        }
    )
    # With a callback, partitions are given away inside `consume` alone: between two batches.
    consumer.subscribe([options.topic], on_revoke=lambda *_: None)
    stopping = stop_on_signals()
    try:
        while not stopping.is_set():
            batch = list(records(consumer.consume(options.batch_records, timeout=TAKE_S)))
            if batch and has_committed(consumer):
                for record in batch:
                    work(record)
    finally:
        consumer.close()  # leaves the group, unless it has an instance id: others take over at once


def has_committed(consumer: Consumer) -> bool:
    """First the commit, to everything that `consume` has given so far; only then the work.

    A member that dies from here on has committed these records: none of them comes again.
    """
    try:
        # Waits for the answer, which may refuse single partitions: nothing else is a promise.
        for place in consumer.commit(asynchronous=False) or []:
            if place.error is not None:
                raise KafkaException(place.error)
    except KafkaException as error:
        # Refused: the records are another member's now. Unanswered: perhaps committed, perhaps
        # not. In both cases to work on them might be the second time, so they are passed over.
        sys.stderr.write(f"passed over a batch: {error}\n")
        return False
    return True


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
    parser.add_argument("--batch-records", type=int, default=500, help="most that a death loses")
    return parser.parse_args()


if __name__ == "__main__":
    main()
