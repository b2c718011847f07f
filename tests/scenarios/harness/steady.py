"""A process that produces at a steady rate: `python -m tests.scenarios.harness.steady`.

Librdkafka producers with their defaults, but idempotent as Java's are by default; values of one
size, in turn to every partition. What the cluster cannot take for a while is sent later: the rate
is that of what is handed to the producers.

Several of them, each with few partitions: such a producer has five requests on their way to each
broker, each with a batch of one partition, and where that is not enough it starves some partitions
for seconds. One for 200 partitions would acknowledge a partition every two seconds on a bucket,
whatever happens to brokers.

    progress acked=<n> on_their_way=<n>      ten times a second
    done sent=<n> acked=<n> failed=<n>       after SIGTERM, once everything sent was answered
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
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

PARTITIONS_EACH = 5
PROGRESS_S = 0.1
TICK_S = 0.005
FLUSH_S = 120.0
QUEUED_MAX = 90_000
"""librdkafka's own limit is 100,000 messages."""


@dataclass(slots=True)
class Steady:
    topic: str
    partitions: int
    value_bytes: int
    producers: Sequence[Producer]
    journal: BinaryIO
    counters: list[int] = field(init=False)
    sent: int = 0
    acked: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self.counters = [0] * self.partitions

    def send(self) -> None:
        partition = self.sent % self.partitions
        value = Value(0, partition, self.counters[partition])
        self.counters[partition] += 1
        self.sent += 1
        self._note(Kind.SENT, value, NO_OFFSET)
        self.producers[partition % len(self.producers)].produce(
            self.topic,
            encode_value(value, self.value_bytes),
            partition=partition,
            on_delivery=self._reporter(value),
        )

    def waiting(self) -> int:
        """Values handed over and not answered yet."""
        return sum(map(len, self.producers))

    def poll(self, seconds: float) -> None:
        for producer in self.producers:
            producer.poll(0)
        self.producers[0].poll(seconds)

    def flush(self, seconds: float) -> int:
        """How many values were not answered in time."""
        until_s = time.monotonic() + seconds
        return sum(one.flush(max(until_s - time.monotonic(), 0.0)) for one in self.producers)

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="values a second")
    parser.add_argument("--bytes", type=int, default=1000, help="of one value")
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--producers", type=int, help="by default one for five partitions")
    parser.add_argument("--timeout-ms", type=int, default=60_000, help="socket.timeout.ms")
    options = parser.parse_args()

    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    settings = {
        "bootstrap.servers": options.bootstrap,
        "enable.idempotence": True,
        "socket.timeout.ms": options.timeout_ms,
        "log_level": 0,
    }
    count = options.producers or max(1, options.partitions // PARTITIONS_EACH)
    producers = [Producer(settings) for _ in range(count)]
    with options.journal.open("wb") as journal:
        steady = Steady(options.topic, options.partitions, options.bytes, producers, journal)
        run(steady, options.rate, lambda: bool(stopping))
        left = steady.flush(FLUSH_S)
    print(f"done sent={steady.sent} acked={steady.acked} failed={steady.failed}")
    return 1 if left or steady.failed else 0


def run(steady: Steady, rate: float, is_over: Callable[[], bool]) -> None:
    began = progress_at = time.monotonic()
    while not is_over():
        now = time.monotonic()
        due = min(int((now - began) * rate), steady.sent + QUEUED_MAX)
        while steady.sent < due and steady.waiting() < QUEUED_MAX:
            steady.send()
        steady.poll(TICK_S)
        if now >= progress_at:
            progress_at = now + PROGRESS_S
            on_their_way = steady.sent - steady.acked - steady.failed
            print(f"progress acked={steady.acked} on_their_way={on_their_way}")


if __name__ == "__main__":
    sys.exit(main())
