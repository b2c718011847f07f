"""What can be read of topics now, and ranges of it: values from a survey to planners. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Extent(NamedTuple):
    """What can be read of a partition now: offsets [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """One life of a topic as the log has it now."""

    topic_id: bytes
    partitions: Mapping[int, Extent]


Extents = Mapping[str, TopicExtent]
"""By topic name."""


class Range(NamedTuple):
    """Offsets [start, end) of one partition, not empty."""

    topic: str
    topic_id: bytes
    partition: int
    start: int
    end: int
