"""Data to read: segments of chains and offsets of tables, in order. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.table_ranges import TableRange

Storage = tuple[tuple[str, str], ...]
"""The `storage.*` settings, which say how to reach a bucket: sorted (name, value) pairs."""


@dataclass(frozen=True, slots=True)
class SeqRange:
    """Segments [first seq, last seq] of a chain and the pieces to take from them.

    All offsets of these pieces lie in these segments, or did when the run was planned.
    """

    chain: int
    first_seq: int
    last_seq: int
    pieces: tuple[SegmentRange, ...]


@dataclass(frozen=True, slots=True)
class Located:
    """Where wanted offsets lie: `history` in tables, `pieces` in segments."""

    history: Sequence[TableRange]
    pieces: Sequence[SegmentRange]


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The reads of one task, in order: tables first."""

    runs: tuple[SeqRange, ...]
    history: tuple[TableRange, ...] = ()
