"""Locations of requested offsets, as a driver plans them and sends them to executors. Pure."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Offsets [start, end) of one epoch range, in segments [first seq, last seq] of one chain."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    chain: int
    first_seq: int
    last_seq: int
    start: int
    end: int


class SplitPoint(NamedTuple):
    """Divides a segment range before segment `seq`; first seq < `seq` <= last seq."""

    segments: SegmentRange
    seq: int
