"""A log with a real broker process, as tests of the sink write to it and read it back."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.scenarios.harness.brokers import START_S, create_topic
from tests.scenarios.harness.fleet import Fleet, directory_place, fleet


class ReadRecord(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Topics(ABC):
    """Topics at `bootstrap`, of our brokers or others."""

    @property
    @abstractmethod
    def bootstrap(self) -> str: ...

    def create(self, topic: str, partitions: int = 3, **configs: str) -> None:
        create_topic(self.bootstrap, topic, partitions, configs)

    def create_once(self, topic: str, partitions: int, **configs: str) -> None:
        admin = self._admin()
        if topic not in admin.list_topics(timeout=START_S).topics:
            self.create(topic, partitions, **configs)

    def recreate(self, topic: str, partitions: int) -> None:
        """Delete a topic, and create another one of its name."""
        admin = self._admin()
        admin.delete_topics([topic], request_timeout=START_S)[topic].result(START_S)
        self.create(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        admin = self._admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(START_S)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def records(self, topic: str) -> dict[int, list[ReadRecord]]:
        """Every record by partition, as a Kafka consumer reads them; offsets have no gap."""
        consumer = self._consumer()
        found: dict[int, list[ReadRecord]] = {}
        try:
            numbers = consumer.list_topics(topic, timeout=START_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
            at_end: set[int] = set()
            while len(at_end) < len(numbers):
                message = consumer.poll(START_S)
                assert message is not None, f"no record in {START_S} s: {topic}"
                error, partition = message.error(), message.partition() or 0
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at_end.add(partition)
                    continue
                found.setdefault(partition, []).append(
                    ReadRecord(
                        message.offset() or 0,
                        message.key(),
                        message.value(),
                        message.headers() or (),  # type: ignore[arg-type]
                    )
                )
        finally:
            consumer.close()
        for records in found.values():
            assert [record.offset for record in records] == list(range(len(records)))
        return found

    def record_count(self, topic: str) -> int:
        """As the brokers say it; records that are being written count or not."""
        return sum(self.ends(topic).values())

    def ends(self, topic: str) -> dict[int, int]:
        """The high watermark of each partition."""
        consumer = self._consumer()
        try:
            numbers = consumer.list_topics(topic, timeout=START_S).topics[topic].partitions
            found = {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), START_S)
                for number in numbers
            }
        finally:
            consumer.close()
        return {number: end[1] for number, end in found.items() if end is not None}

    def values(self, topic: str) -> list[bytes]:
        """Of all partitions, sorted."""
        return sorted(
            record.value or b"" for some in self.records(topic).values() for record in some
        )


@dataclass(slots=True)
class ServedLog(Topics):
    url: str
    brokers: Fleet

    @property
    def bootstrap(self) -> str:
        return self.brokers.bootstrap


@contextmanager
def served_log(directory: Path, *, brokers: int = 1) -> Iterator[ServedLog]:
    with fleet(directory_place(directory), brokers, random.Random(), swallowed=False) as started:
        yield ServedLog(str(directory / "log"), started)
