"""The parts of a broker that handlers use; `broker.handlers.broker` has them all."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from broker.answers.adopt_counts import AdoptCounts
from broker.answers.alarms import Alarms
from broker.answers.alike_names import AlikeNames
from broker.answers.fetch_sessions import FetchSessions
from broker.answers.leader_settling import LeaderSettling
from broker.answers.metadata_bytes import MetadataBytes
from broker.answers.partition_sizes import PartitionSizes
from broker.answers.pending_produces import PendingProduces
from broker.answers.staged_fronts import StagedFronts
from broker.answers.staged_manifests import StagedManifests
from broker.answers.topic_rules import TopicRules
from broker.answers.topic_watch import TopicWatch
from broker.answers.traffic import Traffic
from broker.cluster.new_partitions import RunningLoad
from broker.groups.coordinators import Coordinators
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from broker.network.clients import Clients
from broker.network.timers import Timers
from broker.network.turns import Turns
from logstore.config.broker import BrokerSettings
from logstore.epoch.log import Log, Topic
from logstore.formats.lease_row import LeaseRow
from logstore.ports.clock import Clock

Work = Callable[[], Coroutine[Any, Any, None]]


class Services(Protocol):
    """One per process; every handler gets it with each call."""

    log: Log
    settings: BrokerSettings
    clock: Clock
    stamps: Clock
    """For records whose age decides later when they are deleted: it is never behind the store's."""
    node_id: int
    rack: str | None
    cluster_id: str
    """As Kafka shows it: 22 characters."""
    fetch_bytes_max: int
    loop: asyncio.AbstractEventLoop
    tasks: asyncio.TaskGroup
    clients: Clients
    fetch_sessions: FetchSessions
    timers: Timers
    pending_produces: PendingProduces
    groups: Coordinators
    sizes: PartitionSizes
    metadata: MetadataBytes
    traffic: Traffic
    topic_watch: TopicWatch
    leader_settling: LeaderSettling
    alarms: Alarms
    store_reads: asyncio.Semaphore
    """How many reads of store or registry may run at once."""
    look_ups: asyncio.Semaphore
    """How many partitions may be looked up by time at once, of all requests."""
    record_checks: asyncio.Semaphore
    """How many requests may unpack records at once, in threads."""
    adoptions: asyncio.Semaphore
    """How many requests may copy staged batches at once, each a window of them."""
    staged_manifests: StagedManifests
    staged_fronts: StagedFronts
    adopt_counts: AdoptCounts
    changes: asyncio.Semaphore
    """How many requests may change topics at once."""
    begun: asyncio.Semaphore
    """How many changes may be under way at once, also those whose requests wait no longer."""
    turns: Turns
    """Long work on the event loop goes in slices, one after the other."""
    alike_names: AlikeNames
    load: RunningLoad
    being_created: set[str]
    """Topics that clients asked for and that are on their way."""

    @property
    def controller_id(self) -> int: ...

    @property
    def controller_lease(self) -> LeaseRow | None:
        """The lease of the controller, as far as it is known here; None: it is free."""
        ...

    @property
    def rights_version(self) -> int:
        """Another one after each change of clients' rights."""
        ...

    def allows(self, call: Call, operation: Operation, kind: ResourceKind, name: str) -> bool: ...

    def allows_on(self, call: Call, operation: Operation, topic: Topic) -> bool:
        """The same as `allows`, for the hot paths."""
        ...

    def allowed_bits(
        self, call: Call, operations: Sequence[Operation], kind: ResourceKind, name: str
    ) -> int:
        """Which of `operations` are allowed: bit n for the operation of number n (KIP-430)."""
        ...

    def rules(self, topic: Topic) -> TopicRules: ...

    def start(self, call: Call, work: Work, turn: asyncio.Semaphore | None) -> None:
        """Run what takes store or registry, which answers `call` itself when it is done.

        It has one of the places of `turn` until then. None: it mostly waits for others, and takes
        such a place itself for what it does.
        """
        ...
