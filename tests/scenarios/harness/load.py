"""A process that produces without pause and journals it: `python -m tests.scenarios.harness.load`.

Many librdkafka producers, idempotent, acks=all, no linger, one record per batch, so that batches
are as many and as small as can be. Each keeps more queued than the five requests that may be on
their way, so these are always used up. Rides out every death of the broker by itself.

    progress acked=<n> on_their_way=<n>      ten times a second
    done sent=<n> acked=<n> failed=<n>       after SIGTERM, once everything sent was answered
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from confluent_kafka import KafkaError, Message, Producer

from tests.scenarios.harness.values import (
    NO_OFFSET,
    Entry,
    Kind,
    Value,
    encode_value,
    pack_entry,
)

REQUESTS_ON_THEIR_WAY_MAX = 5  # of an idempotent producer, by Kafka's rule
QUEUED_MAX = 10
PROGRESS_S = 0.1
IDLE_S = 0.002
FLUSH_S = 60.0


@dataclass(slots=True)
class Sender:
    """One producer, its values in turn to every partition."""

    number: int
    partitions: int
    topic: str
    producer: Producer
    journal: BinaryIO
    counters: list[int] = field(init=False)
    sent: int = 0
    acked: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self.counters = [0] * self.partitions

    @property
    def unacknowledged(self) -> int:
        return self.sent - self.acked - self.failed

    def fill(self) -> int:
        """Send as much as may be outstanding; how much that was."""
        room = QUEUED_MAX - self.unacknowledged
        for _ in range(room):
            partition = (self.sent + self.number) % self.partitions
            value = Value(self.number, partition, self.counters[partition])
            self.counters[partition] += 1
            self.sent += 1
            self._note(Kind.SENT, value, NO_OFFSET)
            self.producer.produce(
                self.topic,
                encode_value(value),
                partition=partition,
                on_delivery=self._reporter(value),
            )
        return room

    def _reporter(self, value: Value) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acked += 1
                self._note(Kind.ACKED, value, message.offset() or 0)
            else:
                self.failed += 1
                self._note(Kind.FAILED, value, NO_OFFSET)
                print(f"failed value={value} error={error}")

        return report

    def _note(self, kind: Kind, value: Value, offset: int) -> None:
        self.journal.write(pack_entry(Entry(kind, *value, offset, time.monotonic())))


def producer(bootstrap: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": REQUESTS_ON_THEIR_WAY_MAX,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
            "log_level": 0,
        }
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--producers", type=int, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    options = parser.parse_args()

    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    with options.journal.open("wb") as journal:
        senders = [
            Sender(number, options.partitions, options.topic, producer(options.bootstrap), journal)
            for number in range(options.producers)
        ]
        run(senders, lambda: bool(stopping))
        left = sum(sender.producer.flush(FLUSH_S) for sender in senders)
    sent, acked, failed = (
        sum(getattr(sender, name) for sender in senders) for name in ("sent", "acked", "failed")
    )
    print(f"done sent={sent} acked={acked} failed={failed}")
    return 1 if left or failed else 0


def run(senders: list[Sender], is_over: Callable[[], bool]) -> None:
    progress_at = time.monotonic()
    while not is_over():
        done = 0
        for sender in senders:
            done += sender.producer.poll(0) + sender.fill()
        if not done:
            senders[0].producer.poll(IDLE_S)
        if time.monotonic() >= progress_at:
            progress_at = time.monotonic() + PROGRESS_S
            acked = sum(sender.acked for sender in senders)
            on_their_way = sum(
                min(sender.unacknowledged, REQUESTS_ON_THEIR_WAY_MAX) for sender in senders
            )
            print(f"progress acked={acked} on_their_way={on_their_way}")


if __name__ == "__main__":
    sys.exit(main())
