"""Names one partition of one life of a topic, everywhere inside the process."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """As Kafka's TopicIdPartition: a topic that is created again is another topic id."""

    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"topic={self.topic_id.hex()} partition={self.partition}"
