"""The command line's options, as cases see them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`scale` shortens or lengthens loads and times; `load` picks those whose name begins so."""

    scale: float = 1.0
    load: str = ""
    partitions: tuple[int, ...] = (10, 1000)
    has_peer: bool = True
    has_dynamodb: bool = False
    is_full: bool = False
    """Every cell of a case whose table is large, else a part that tells the most."""
    profiles: Path | None = None
    """A folder: brokers run under a profiler and leave its output there."""
