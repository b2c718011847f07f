"""What is to be read: segments of chains and offsets of tables, in order. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from logstore.formats.pieces import Piece
from logstore.reading.table_ranges import TableRange

Storage = tuple[tuple[str, str], ...]
"""The `storage.*` settings, which say how to reach a bucket: sorted (name, value) pairs."""


@dataclass(frozen=True, slots=True)
class Run:
    """Segments [first seq, last seq] of a chain and the pieces to take from them.

    All offsets of these pieces lie in these segments, or did when the run was planned.
    """

    chain: int
    first_seq: int
    last_seq: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """Where wanted offsets lie: `history` in tables, `pieces` in segments."""

    history: Sequence[TableRange]
    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What one task reads, in order: first what tables hold."""

    runs: tuple[Run, ...]
    history: tuple[TableRange, ...] = ()
