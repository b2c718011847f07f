"""A log with a real broker process, as tests of the sink write to it and read it back."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from tests.scenarios.harness.brokers import bootstrap_of, create_topic, start_broker
from tests.scenarios.harness.process import Process

EARLIEST_TIMEOUT_MS = 30_000


@dataclass(slots=True)
class ServedLog:
    """`bootstrap` is where its broker listens; a broker that starts again listens elsewhere."""

    url: str
    broker: Process
    bootstrap: str

    def create(self, topic: str, partitions: int = 3, **configs: str) -> None:
        create_topic(self.bootstrap, topic, partitions, configs)

    def restart(self) -> None:
        """The broker is killed, and another takes its place."""
        self.broker.kill()
        self.broker.wait()
        self.broker = start_broker(self.url)
        self.bootstrap = bootstrap_of(self.broker)

    def records(self, topic: str) -> dict[int, list[ConsumerRecord]]:
        """Every record by partition, as a Kafka consumer reads them; offsets have no gap."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        try:
            partitions = [
                TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)
            ]
            consumer.assign(partitions)
            ends: Mapping[TopicPartition, int] = consumer.end_offsets(partitions)
            consumer.seek_to_beginning(*partitions)
            found: dict[int, list[ConsumerRecord]] = {one.partition: [] for one in partitions}
            while any(consumer.position(one) < ends[one] for one in partitions):
                for one, records in consumer.poll(timeout_ms=EARLIEST_TIMEOUT_MS).items():
                    found[one.partition] += records
        finally:
            consumer.close()
        for records in found.values():
            assert [record.offset for record in records] == list(range(len(records)))
        return {number: records for number, records in sorted(found.items()) if records}

    def values(self, topic: str) -> list[bytes]:
        """Of all partitions, sorted."""
        return sorted(record.value for some in self.records(topic).values() for record in some)


@contextmanager
def served_log(directory: Path) -> Iterator[ServedLog]:
    broker = start_broker(str(directory))
    log = ServedLog(str(directory), broker, bootstrap_of(broker))
    try:
        yield log
    finally:
        log.broker.kill()
        log.broker.wait()
