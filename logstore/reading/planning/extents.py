"""Readable offsets of topics, and ranges of them: values for planners. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Extent(NamedTuple):
    """Readable offsets [start, end) of a partition."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """One life of a topic as the log has it now."""

    topic_id: bytes
    partitions: Mapping[int, Extent]


Extents = Mapping[str, TopicExtent]
"""By topic name."""


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition, not empty."""

    topic: str
    topic_id: bytes
    partition: int
    start: int
    end: int
