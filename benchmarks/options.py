"""The command line's options, as cases see them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

StoreKind = Literal["directory", "s3"]

SEGMENT_BYTES = 2 << 20
"""A broker with a load of 20 MB/s on S3 puts such segments: ten a second."""


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
    store: StoreKind = "directory"
    share: float = 1.0
    """The topic's part of the bytes of its segments."""
    segment_bytes: int = SEGMENT_BYTES
    seed: int = 1
    """Of the latency of a bucket."""
    spreads: tuple[str, ...] = ()
    """Latency by method, as the fault proxy reads it; else that of S3."""

    @property
    def fill_settings(self) -> tuple[str, ...]:
        """Of a broker that fills a log as fast as it can: its segments leave when they are full."""
        return (f"logstore.segment.bytes={self.segment_bytes}", "logstore.flush.interval.ms=1000")
