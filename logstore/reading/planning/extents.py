"""Readable offsets of topics, and ranges of them: values for planners. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from logstore.formats.offset_range import OffsetRange


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


class TopicRange(NamedTuple):
    """Offsets of one partition, not empty, with the name of its topic."""

    topic: str
    offsets: OffsetRange
