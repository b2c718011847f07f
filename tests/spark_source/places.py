"""Two places that hold the same records: Apache Kafka, and a log in a directory.

What a test asks of both it writes once, against `Place`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stub does not re-export
    AdminClient,
    NewTopic,
)

from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.ports.clock import SystemClock
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.stores.backends import Backends
from logstore.stores.location import parse_location
from tests.logstore.raised import raised_to
from tests.spark_source.log_on_disk import LogOnDisk

WAIT_S = 30.0
COORDINATOR_IS_BUSY = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Written:
    """A record as a producer sends it; `timestamp` in milliseconds."""

    timestamp: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Place(Protocol):
    """`format` and `options` are what Spark needs to read there."""

    format: str

    @property
    def options(self) -> Mapping[str, str]: ...

    def create_topic(self, name: str, partitions: int) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def append(self, topic: str, partition: int, records: Sequence[Written]) -> None: ...

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Raise the partition's log start offset."""
        ...


class KafkaPlace:
    format = "kafka"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    @property
    def options(self) -> Mapping[str, str]:
        quick = {"fetchOffset.numRetries": "1", "kafkaConsumer.pollTimeoutMs": "10000"}
        return {"kafka.bootstrap.servers": self.bootstrap, **quick}

    def create_topic(self, name: str, partitions: int) -> None:
        configs = {"retention.ms": "-1"}  # records of 2023 would be gone at the next check
        wanted = NewTopic(name, partitions, 1, config=configs)
        deadline_s = CLOCK.monotonic_s() + WAIT_S
        while True:
            try:
                self._admin.create_topics([wanted])[name].result(WAIT_S)
                return
            except KafkaException:  # its former life is still being deleted
                if CLOCK.monotonic_s() > deadline_s:
                    raise

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(WAIT_S)

    def append(self, topic: str, partition: int, records: Sequence[Written]) -> None:
        for record in records:
            self._producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
        assert self._producer.flush(WAIT_S) == 0

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        wanted = [TopicPartition(topic, partition, before)]
        for future in self._admin.delete_records(wanted).values():
            future.result(WAIT_S)

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """What is committed to a consumer group, by topic and partition."""
        wanted = [ConsumerGroupTopicPartitions(group)]
        while True:
            (future,) = self._admin.list_consumer_group_offsets(wanted).values()
            try:
                found = future.result(WAIT_S).topic_partitions
            except KafkaException as error:
                if error.args[0].code() not in COORDINATOR_IS_BUSY:
                    raise
            else:
                return {(one.topic, one.partition): one.offset for one in found}


class LogstorePlace:
    format = "logstore"

    def __init__(self, log: LogOnDisk) -> None:
        self._log = log
        self._ids: dict[str, bytes] = {}

    @property
    def options(self) -> Mapping[str, str]:
        return {"path": str(self._log.directory)}

    def create_topic(self, name: str, partitions: int) -> None:
        self._ids[name] = self._log.create_topic(name, partitions)

    def delete_topic(self, name: str) -> None:
        self._log.delete_topic(name)

    def append(self, topic: str, partition: int, records: Sequence[Written]) -> None:
        self._log.append(topic, partition, encode_batch(list(_numbered(records))))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        raise_log_start(Path(self._log.directory), self._ids[topic], partition, before)


def raise_log_start(directory: Path, topic_id: bytes, partition: int, before: int) -> None:
    """In the registry, where readers look; the partition's leader is not informed."""
    rows = Backends(parse_location(str(directory))).rows("sqlite:registry.db", "create").blocking()
    try:
        place = partition_pk(topic_id, partition), partition_sk(topic_id, partition)
        rows.update_if(*place, raised_to(before), [], "raised")
    finally:
        rows.close()


def _numbered(records: Iterable[Written]) -> Iterable[Record]:
    for number, one in enumerate(records):
        yield Record(number, one.timestamp, one.key, one.value, one.headers)
