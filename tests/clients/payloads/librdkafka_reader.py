"""librdkafka reads a partition from its start and prints the digest of so many records.

`python -m tests.clients.payloads.librdkafka_reader BOOTSTRAP TOPIC COUNT`. A process of its own:
there are payloads at which librdkafka ends its process.
"""

import sys
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from logstore.records.record import Record
from tests.clients.payloads.judges import digest_of_records

SILENCE_S = 20.0


def read(bootstrap: str, topic: str, count: int) -> Iterator[Record]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    for place in range(count):
        message = consumer.poll(SILENCE_S)
        if message is None:
            raise TimeoutError(f"nothing came after {place} of {count} records")
        if error := message.error():
            raise KafkaException(error)
        offset, (_, timestamp) = message.offset(), message.timestamp()
        assert offset is not None
        headers: Any = tuple(message.headers() or ())  # its stub takes them for lists
        yield Record(offset, timestamp, message.key(), message.value(), headers)
    consumer.close()


def main() -> int:
    bootstrap, topic, count = sys.argv[1:]
    sys.stdout.write(digest_of_records(read(bootstrap, topic, int(count))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
