"""Clients that tell how long they heard nothing; this module is one of them.

A process is a producer and a member of a group of one client library, with its defaults, on
BOOTSTRAP TOPIC PARTITIONS. It sends a record of 100 B to one partition after the other, one each
millisecond, all to itself and to the other clients. For each line of stdin it prints two numbers:
the longest time, in ms, since the line before that a partition was not acknowledged to its
producer, and was not read by its consumer; -1 as long as a partition was not heard of at all.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer

JAVA = Path(__file__).with_name("Silence.java")
PAUSE_S = 0.001
VALUE = bytes(100)
NOT_HEARD = -1


@dataclass(frozen=True, slots=True)
class Silence:
    """The longest silences of one client, in seconds."""

    producer_s: float
    consumer_s: float


class SilentClient:
    """One such process."""

    def __init__(self, command: Sequence[str], arguments: Sequence[str]) -> None:
        self._command = [*command, *arguments]
        self._child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def take(self) -> Silence | None:
        """Since the call before; None: it has not heard of all partitions yet."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"a client ended: {self._command}")
        produced_ms, read_ms = map(int, line.split())
        if NOT_HEARD in (produced_ms, read_ms):
            return None
        return Silence(produced_ms / 1000, read_ms / 1000)

    def end(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()


class Gaps:
    def __init__(self, partitions: int) -> None:
        self._last_s: list[float | None] = [None] * partitions
        self._worst_s = [0.0] * partitions

    def heard(self, partition: int) -> None:
        now_s, last_s = time.perf_counter(), self._last_s[partition]
        if last_s is not None:
            self._worst_s[partition] = max(self._worst_s[partition], now_s - last_s)
        self._last_s[partition] = now_s

    def take_ms(self) -> int:
        now_s, most_s = time.perf_counter(), 0.0
        for partition, last_s in enumerate(self._last_s):
            if last_s is None:
                return NOT_HEARD
            most_s = max(most_s, self._worst_s[partition], now_s - last_s)
            self._worst_s[partition] = 0.0
        return int(most_s * 1000)


def main() -> int:
    bootstrap, topic, count = sys.argv[1:]
    acknowledged, read = Gaps(int(count)), Gaps(int(count))
    servers = {"bootstrap.servers": bootstrap, "log_level": 0}
    for work in (
        lambda: _produce(Producer(servers), topic, int(count), acknowledged.heard),
        lambda: _consume(Consumer({**servers, "group.id": "silence"}), topic, read.heard),
    ):
        threading.Thread(target=work, daemon=True).start()
    for _ in sys.stdin:
        print(acknowledged.take_ms(), read.take_ms(), flush=True)
    return 0


def _produce(producer: Producer, topic: str, count: int, heard: Callable[[int], None]) -> None:
    def delivered(error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        if error is None and partition is not None:
            heard(partition)

    number = 0
    while True:
        try:
            producer.produce(topic, VALUE, partition=number % count, on_delivery=delivered)
            number += 1
        except BufferError:
            pass
        producer.poll(PAUSE_S)


def _consume(consumer: Consumer, topic: str, heard: Callable[[int], None]) -> None:
    consumer.subscribe([topic])
    while True:
        for message in consumer.consume(500, timeout=0.05):
            partition = message.partition()
            if message.error() is None and partition is not None:
                heard(partition)


if __name__ == "__main__":
    sys.exit(main())
