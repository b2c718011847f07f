"""When the open segment is frozen and leaves. Pure."""

from dataclasses import dataclass
from enum import StrEnum

KiB, MiB = 1024, 1024 * 1024


class FlushReason(StrEnum):
    """Why the open segment left."""

    TIME = "time"
    SIZE = "size"
    STATE = "state"
    """A large state of a partition is put into segments of its own."""
    WANTED = "wanted"
    """A change of leaders, or of where a log starts, waits for it."""
    CLOSE = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushSettings:
    """A flush starts when the next batch does not fit, or after the interval if anything waits and
    a put may leave at once (`protocol.chain.pipeline.Window`); else as soon as a put ends."""

    interval_s: float = 0.1
    """`logstore.flush.interval.ms`: counted from when the last flush began, so the first batch
    after idle leaves at once. The floor of produce latency under load, and the bill: 100 ms is at
    most ten puts a second, $4.32 a day at $5 per million when never idle."""

    segment_bytes_max: int = 8 * MiB
    """A batch that would make the segment larger lets it leave early. Larger means fewer, better
    packed objects."""

    backlog_bytes_max: int = 64 * MiB
    """Bytes not committed yet above which producers are held back. Bounds memory when the store is
    slow or away."""

    def __post_init__(self) -> None:
        assert 0 <= self.interval_s <= 60
        assert 64 * KiB <= self.segment_bytes_max <= 256 * MiB


def flush_delay_s(
    settings: FlushSettings, *, now_s: float, last_began_s: float | None, has_slot: bool
) -> float | None:
    """How long the open segment may still gather; None: until a put ends."""
    if not has_slot:
        return None
    if last_began_s is None:
        return 0.0
    return max(0.0, last_began_s + settings.interval_s - now_s)
