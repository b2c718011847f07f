"""Facts that `logstore doctor` found out about a log; `doctor_findings` judges them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logstore.formats.broker_row import BrokerStatus
from logstore.formats.chain_row import ChainStatus
from logstore.formats.levels import OLDEST_LEVEL


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """`is_advancing`: its heartbeat rose while the doctor looked, for longer than a lease."""

    broker: int
    epoch: int
    address: str
    status: BrokerStatus
    is_advancing: bool
    put_age_ms: int
    led_count: int
    """Partitions whose rows name it."""
    unreachable: str | None = None
    """Why its address was not reached; None: it was, or nothing was asked."""
    version: str = ""
    level_max: int = OLDEST_LEVEL
    """Highest format level that it reads."""


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """Holder of a lease; `is_advancing` as for brokers."""

    owner: int
    is_advancing: bool


@dataclass(frozen=True, slots=True)
class ChainFacts:
    epoch: int
    broker: int
    status: ChainStatus
    hold: str | None
    """Why it cannot be trimmed at its last checkpoint; None: it can, or has none."""
    topic: str
    """Of the epoch range that holds it, if any."""
    clock_ahead_ms: int | None
    """Its newest segment's time by its broker's clock, less the store's; None: none was read."""
    age_ms: int
    """Of its last checkpoint, by the store's clock; 0 without one."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A topic whose table is enabled. `waiting_ms` is the age of the oldest record not in it."""

    topic: str
    waiting_records: int
    waiting_ms: int
    freshness_ms: int


@dataclass(frozen=True, slots=True)
class CompactionFacts:
    """Runs as their rows say, the last first. Ages are by this host's clock, in ms."""

    last_good_age_ms: int | None
    failed_since: int
    """Runs that failed or were abandoned after the last good one."""
    last_error: str


@dataclass(frozen=True, slots=True)
class GroupFacts:
    group: str
    state: str
    lag: int


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Of a server that brokers call by TLS."""

    url: str
    left_ms: int
    """Until its certificate ends; negative: since."""


@dataclass(frozen=True, slots=True)
class DamageFacts:
    kind: str
    where: str
    detail: str
    cure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was found out. A list is empty where there is nothing, or it was not looked at."""

    version: str
    known_level: int
    """Format level that this version reads."""
    log_level: int
    """Format level that the log is written with."""
    store: str
    registry: str
    probe_faults: Sequence[str] | None
    """None: the probe was not made."""
    brokers: Sequence[BrokerFacts]
    controller: LeaseFacts | None
    certificates: Sequence[CertificateFacts] = ()
    quotas: Sequence[str] = ()
    """Limits of clients: of which, and what."""
    leaderless: Sequence[tuple[str, int]] = ()
    """Topic and partition."""
    orphans: Sequence[tuple[str, int]] = ()
    """Topic id and partition of rows without a topic."""
    chains: Sequence[ChainFacts] = ()
    tables: Sequence[TableFacts] = ()
    compaction: CompactionFacts | None = None
    groups: Sequence[GroupFacts] = ()
    damage: Sequence[DamageFacts] | None = ()
    """None: the log was too large to look at."""
    no_room: str = ""
    """The error of a store or a registry whose disk is full; empty: none is known to be."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Parts that could not be looked at, and why."""
