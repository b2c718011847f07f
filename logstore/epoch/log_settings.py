"""Settings of a broker's log: when it writes, what it keeps in memory, when it deletes."""

from dataclasses import dataclass, field

from logstore.epoch.writer import ChainLimits
from logstore.formats.partition_state import PRODUCER_EXPIRATION_MS
from logstore.protocol.chain.flush import FlushSettings, MiB
from logstore.protocol.partitions.index_cache import INDEX_CACHE_BYTES
from logstore.reading.brokers.history import HistorySettings
from logstore.reading.brokers.segment_parts import WHOLE_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    flush: FlushSettings = field(default_factory=FlushSettings)
    limits: ChainLimits = field(default_factory=ChainLimits)
    cache_bytes_max: int = 128 * MiB
    """Segment bodies kept in memory: the tail, and what lagging consumers read. At 100 MB/s the
    default covers a second of tail; consumers further back cost one GET per segment and broker."""
    read_ahead_bytes_max: int = 128 * MiB
    """Segment bodies that are on their way, or arrived and not read, ahead of lagging consumers: a
    consumer of 200 MB/s needs 100 MB of them where a GET takes a quarter of a second."""
    index_cache_bytes_max: int = INDEX_CACHE_BYTES
    """Fronts and index pages of checkpoints, for consumers behind what a checkpoint covers."""
    whole_segment_bytes: int = WHOLE_BYTES_MAX
    """Segments up to this size are fetched whole, whatever is wanted of them."""
    history: HistorySettings = field(default_factory=HistorySettings)
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS
    """How long idle producers are known to partitions that this broker leads."""
    delete_grace_s: float = 3_600.0
    """How long after they were given up segments are deleted, at the soonest, by any broker."""
