"""Locations of requested offsets, as a driver plans them and sends them to executors. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from logstore.formats.chain_state import EpochKey
from logstore.formats.offset_range import OffsetRange


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Offsets of one epoch range, in segments [first seq, last seq] of one chain."""

    offsets: OffsetRange
    leader_epoch: int
    chain: int
    first_seq: int
    last_seq: int

    @property
    def key(self) -> EpochKey:
        """The epoch range."""
        return EpochKey(*self.offsets.partition, self.leader_epoch)


class SplitPoint(NamedTuple):
    """Divides a segment range before segment `seq`; first seq < `seq` <= last seq."""

    segments: SegmentRange
    seq: int
