"""State of the history checker (`logstore.testing.history`): of a batch, of a partition."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Partition(NamedTuple):
    topic_id: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Sent:
    """One batch of values as a producer made it, before its first attempt."""

    partition: Partition
    values: tuple[bytes, ...]
    is_idempotent: bool
    known_before: int
    """The highest offset acknowledged or read before it was sent."""
    sender: str
    number: int
    """Which of all batches it is, in the order of sending."""
    timestamp_ms: int = 0
    """Of its records."""


class StoredRecord(NamedTuple):
    """One record of the log as it stands at the end."""

    offset: int
    value: bytes
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """Offsets known to a client when it sent a request: no answer may fall behind them."""

    partition: Partition
    acked_end: int
    watermarks: Mapping[int, int]
    """Highest answered before by the leader of each leader epoch."""
    served: Mapping[int, int]
    """Highest answered before by each broker epoch."""
    starts: Mapping[int, int]
    """Log start that each broker epoch had answered before."""


class Expiry(NamedTuple):
    """Retention deleted the offsets [start, end) when a timestamp below `cutoff_ms` was old.

    `edited`: offsets that the owner of a table had deleted before; retention cannot see their age.
    """

    start: int
    end: int
    cutoff_ms: int
    edited: frozenset[int]


@dataclass(slots=True)
class Seen:
    """State of one partition."""

    values: dict[int, bytes] = field(default_factory=dict)
    sent: dict[bytes, Sent] = field(default_factory=dict)
    acked: dict[int, Sent] = field(default_factory=dict)
    """Batches by the offset that they were acknowledged with."""
    acked_max: int = -1
    read: set[int] = field(default_factory=set)
    read_max: int = -1
    watermarks: dict[int, int] = field(default_factory=dict)
    """Highest served by the leader of each leader epoch."""
    lowest: dict[int, int] = field(default_factory=dict)
    """Lowest served by the leader of each leader epoch."""
    served: dict[int, int] = field(default_factory=dict)
    """Highest served by each broker epoch, as leader or follower."""
    starts: dict[int, int] = field(default_factory=dict)
    """Log start as each broker epoch showed it last."""
    start_asked: int = 0
    start_acked: int = 0
    edited: set[int] = field(default_factory=set)
    """Offsets whose rows the owner of the table deleted, or tried to: they may be absent."""
    forbidden: set[int] = field(default_factory=set)
    """Those of them that no reader may get any more."""
    expiries: list[Expiry] = field(default_factory=list)
    attempts: Counter[int] = field(default_factory=Counter)
    """How often batches of producers that are not idempotent were sent, by their numbers."""

    def first_kept(self, offset: int) -> int:
        """The first offset from `offset` on that no owner deleted."""
        while offset in self.edited:
            offset += 1
        return offset
