"""A little data through a real client: enough to see that a log is whole and serves."""

from collections.abc import Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

ANSWER_S = 60.0


class Writer:
    """One idempotent producer to partition 0 of a topic, which it creates by asking for it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acked: list[str] = []
        self.failed: list[KafkaError] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 200,
                # A lone broker may come back at another address: ask the bootstrap servers soon.
                "metadata.recovery.rebootstrap.trigger.ms": 1000,
                "log_level": 0,
            }
        )

    def send(self, values: Sequence[str]) -> None:
        for value in values:
            self._producer.produce(
                self._topic, value.encode(), partition=0, on_delivery=self._report
            )

    def flush(self, timeout_s: float = ANSWER_S) -> int:
        """Wait for answers; how many are still missing."""
        return self._producer.flush(timeout_s)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked.append((message.value() or b"").decode())
        else:
            self.failed.append(error)


def write(bootstrap: str, topic: str, values: Sequence[str]) -> None:
    """Every value acknowledged."""
    writer = Writer(bootstrap, topic)
    writer.send(values)
    assert writer.flush() == 0
    assert writer.acked == list(values), writer.failed


def read(bootstrap: str, topic: str, *, offset: int = OFFSET_BEGINNING) -> list[str]:
    """Every value of partition 0 from `offset` to its end as it is now."""
    partition = TopicPartition(topic, 0, offset)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    try:
        _, end = consumer.get_watermark_offsets(partition, timeout=ANSWER_S)
        consumer.assign([partition])
        values: list[str] = []
        position = 0
        while position < end:
            message = consumer.poll(ANSWER_S)
            assert message is not None, f"nothing more after {len(values)} of {end}"
            assert message.error() is None, message.error()
            values.append((message.value() or b"").decode())
            position = (message.offset() or 0) + 1
        return values
    finally:
        consumer.close()
