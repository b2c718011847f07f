"""A range of offsets of one partition. Pure."""

from typing import NamedTuple

from logstore.formats.topic_partition import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def topic_id(self) -> bytes:
        return self.partition.topic_id

    @property
    def number(self) -> int:
        """The partition's number in its topic."""
        return self.partition.partition

    def __str__(self) -> str:
        return f"{self.partition} offset={self.start} to {self.end - 1}"
