"""Data to read: segments of chains and offsets of tables, in order. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.planning.batch_places import BatchPlaces
from logstore.reading.planning.table_ranges import TableRange

Storage = tuple[tuple[str, str], ...]
"""The `storage.*` settings, which say how to reach a bucket: sorted (name, value) pairs."""


@dataclass(frozen=True, slots=True)
class SeqRange:
    """Segments [first seq, last seq] of a chain and the segment ranges to take from them.

    All offsets of these segment ranges lie in these segments, or did when the seq range was
    planned. `places`: which bytes of segments hold them; those it does not have are read whole.
    """

    chain: int
    first_seq: int
    last_seq: int
    segment_ranges: tuple[SegmentRange, ...]
    places: BatchPlaces = field(default_factory=BatchPlaces)


@dataclass(frozen=True, slots=True)
class Located:
    """Where wanted offsets lie: `history` in tables, `segment_ranges` in segments."""

    history: Sequence[TableRange]
    segment_ranges: Sequence[SegmentRange]


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The reads of one task, in order: tables first."""

    seq_ranges: tuple[SeqRange, ...]
    history: tuple[TableRange, ...] = ()
