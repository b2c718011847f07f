"""A seeded history of a compacted partition, produced and read back by librdkafka.

Rounds of values and tombstones, each followed by one record of a key of its own that is much later
by its timestamp: Apache Kafka never cleans the active segment, and this record begins a new one.
Offsets of all records follow from the seed, whatever the broker.
"""

import random
import time
import uuid
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.cases.decode import like_json

ROUNDS = 4
KEYS = 50_000
RECORDS_PER_KEY_MIN = 10
VALUE_BYTES = 200
NOISE_BYTES = 25
TOMBSTONES = 0.1
LAST_ROUND = 16
"""One key of so many has records in the last round: files with few dead rows are left alone."""
MINUTE_MS = 60_000
ROUND_MS = 10 * MINUTE_MS
OLD_MS = 10 * 24 * 60 * MINUTE_MS
SEGMENT_MS = 5 * MINUTE_MS
"""For `segment.ms`: records of one round lie within it, the last one of a round does not."""
ROLLS = b"rolls the segment"
READ_S = 120.0
TURN_S = 0.2
"""librdkafka waits so long for a full turn, also behind the end."""
ERRORS = 3
_FILLS = [like_json(VALUE_BYTES - 12 - 2 * NOISE_BYTES, number) for number in range(512)]

Kept = dict[int, tuple[bytes, bool]]
"""By offset: the key, and whether the record is a tombstone."""


@dataclass(frozen=True)
class KeyedHistory:
    """`is_first_old`: the records of the first round have timestamps of ten days ago."""

    records: int
    seed: int = 1
    is_first_old: bool = False

    @property
    def round_records(self) -> int:
        return self.records // ROUNDS

    @property
    def count(self) -> int:
        """Of all records: it is the end of the partition."""
        return ROUNDS * (self.round_records + 1)

    def ends(self) -> list[int]:
        """Offsets of the records that end the rounds."""
        return [(number + 1) * (self.round_records + 1) - 1 for number in range(ROUNDS)]

    def key(self, offset: int) -> bytes:
        number = self._drawn[offset] >> 1
        return b"key-%016d" % number if number else ROLLS

    def value(self, offset: int) -> bytes | None:
        """No two are alike, and a quarter of each does not compress."""
        if self._drawn[offset] & 1:
            return None
        number = b"%012d" % offset
        noise = blake2b(number, digest_size=NOISE_BYTES).hexdigest().encode()
        return number + noise + _FILLS[offset % len(_FILLS)]

    def newest(self, start: int, end: int) -> dict[bytes, int]:
        """Of each key the greatest offset in [start, end)."""
        return {self.key(offset): offset for offset in range(start, end)}

    def state(self, start: int) -> dict[bytes, bytes]:
        """Of a consumer that read everything from `start` on, before anything was cleaned."""
        values = {key: self.value(at) for key, at in self.newest(start, self.count).items()}
        return {key: value for key, value in values.items() if value is not None}

    @cached_property
    def size_bytes(self) -> int:
        """Keys and values."""
        return sum(
            len(self.key(offset)) + len(self.value(offset) or b"") for offset in range(self.count)
        )

    @cached_property
    def _drawn(self) -> "array[int]":
        """By offset, the number of the key, twice, and 1 for a tombstone. Key 0 ends rounds."""
        rng = random.Random(self.seed)
        keys = min(KEYS, max(LAST_ROUND, self.records // RECORDS_PER_KEY_MIN))
        drawn = array("i")
        for number in range(ROUNDS):
            among = keys // LAST_ROUND if number == ROUNDS - 1 else keys
            for _ in range(self.round_records):
                drawn.append(2 + 2 * rng.randrange(among) + (rng.random() < TOMBSTONES))
            drawn.append(0)
        return drawn

    def produce(self, bootstrap: str, topic: str, number: int, began_ms: int) -> None:
        """Round `number`, without the record that ends it. Offsets are as planned."""
        start = number * (self.round_records + 1)
        time_ms = began_ms - (ROUNDS - number) * ROUND_MS
        if self.is_first_old and not number:
            time_ms = began_ms - OLD_MS
        self._send(bootstrap, topic, range(start, start + self.round_records), time_ms)

    def roll(self, bootstrap: str, topic: str, number: int, began_ms: int) -> None:
        """The record that ends round `number`."""
        end = self.ends()[number]
        time_ms = began_ms - (ROUNDS - number) * ROUND_MS + ROUND_MS - MINUTE_MS
        self._send(bootstrap, topic, range(end, end + 1), time_ms)

    def _send(self, bootstrap: str, topic: str, offsets: range, time_ms: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": ERRORS,
                "enable.idempotence": True,
                "linger.ms": 50,
                "batch.size": 1_048_576,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        per_ms = max(1, -(-len(offsets) // MINUTE_MS))
        for offset in offsets:
            key, value = self.key(offset), self.value(offset)
            at_ms = time_ms + (offset - offsets.start) // per_ms
            while True:
                try:
                    producer.produce(
                        topic, value, key, partition=0, timestamp=at_ms, on_delivery=_delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            if not offset & 1023:
                producer.poll(0)
        left = producer.flush(READ_S)
        assert left == 0, f"{left} records were not acknowledged"


def read_back(bootstrap: str, topic: str) -> tuple[int, Kept, dict[bytes, bytes]]:
    """Log start, the records that are left, and the state that a consumer rebuilds from 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": ERRORS,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        log_start, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=READ_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        kept: Kept = {}
        state: dict[bytes, bytes] = {}
        for offset, key, value in _records(consumer):
            kept[offset] = (key, value is None)
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        return log_start, kept, state
    finally:
        consumer.close()


def _records(consumer: Consumer) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Up to the end that the partition has."""
    deadline_s = time.monotonic() + READ_S
    while True:
        assert time.monotonic() < deadline_s, "the end of the partition was not reached"
        for message in consumer.consume(10_000, TURN_S):
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return
            key, value, offset = message.key(), message.value(), message.offset()
            assert isinstance(key, bytes)
            assert value is None or isinstance(value, bytes)
            assert offset is not None
            yield offset, key, value


def log_start_of(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex})
    try:
        found, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=READ_S)
        return int(found)
    finally:
        consumer.close()


def wait_for_log_start(bootstrap: str, topic: str, offset: int) -> None:
    """Until retention has deleted what lies below."""
    deadline_s = time.monotonic() + READ_S
    while (found := log_start_of(bootstrap, topic)) < offset:
        assert time.monotonic() < deadline_s, f"log start is {found}, not {offset}"
        time.sleep(0.1)


def _delivered(error: KafkaError | None, _message: Message) -> None:
    assert error is None, error
