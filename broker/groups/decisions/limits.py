"""Limits that decisions keep, from the broker's settings. Pure."""

from dataclasses import dataclass

KiB, MiB = 1024, 1024 * 1024

RESERVE = 4
"""One part in so many of the memory for groups more is for those that are in it already."""

NEW_MEMBER_JOIN_MS = 300_000
"""How long a first JoinGroup may wait; then its member is taken for gone (as in Kafka)."""

PENDING_MAX = 10_000
"""Member ids of one group that were given out and have not come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    session_min_ms: int = 6_000
    session_max_ms: int = 1_800_000
    initial_delay_ms: int = 3_000
    size_max: int = 10_000
    group_bytes_max: int = 8 * MiB
    """Metadata and assignments of one group's members: they are written as one record."""
    memory_bytes_max: int = 256 * MiB
    """For all groups of one broker, about."""
    retention_ms: int = 7 * 24 * 3_600_000

    def has_room(self, used_bytes: int, growth_bytes: int, *, is_known: bool) -> bool:
        """Whether a group may grow. What exists may go on for longer than anything new may come."""
        reserve_bytes = self.memory_bytes_max // RESERVE if is_known else 0
        return growth_bytes <= 0 or (
            used_bytes + growth_bytes <= self.memory_bytes_max + reserve_bytes
        )
