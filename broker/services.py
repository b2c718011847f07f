"""What handlers, and what they share, use of a broker: `broker.broker.Broker` has it all."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from broker.alarms import Alarms
from broker.authorizer import Kind, Operation
from broker.call import Call
from broker.clients import Clients
from broker.commits import Commits
from broker.groups.coordinators import Coordinators
from broker.metadata_bytes import MetadataBytes
from broker.timers import Timers
from broker.topic_rules import TopicRules
from broker.topic_watch import TopicWatch
from logstore.clock import Clock
from logstore.config.broker import BrokerSettings
from logstore.log.log import Log, Topic

Work = Callable[[], Coroutine[Any, Any, None]]


class Services(Protocol):
    """One per process; every handler gets it with each call."""

    log: Log
    settings: BrokerSettings
    clock: Clock
    node_id: int
    rack: str | None
    cluster_id: str
    """As Kafka shows it: 22 characters."""
    fetch_bytes_max: int
    loop: asyncio.AbstractEventLoop
    tasks: asyncio.TaskGroup
    clients: Clients
    timers: Timers
    commits: Commits
    groups: Coordinators
    metadata: MetadataBytes
    topic_watch: TopicWatch
    alarms: Alarms
    cold_reads: asyncio.Semaphore
    """How many reads of store or registry may run at once."""
    changes: asyncio.Semaphore
    """How many requests may change topics at once."""
    being_created: set[str]
    """Topics that clients asked for and that are on their way."""

    @property
    def controller_id(self) -> int: ...

    def allows(self, call: Call, operation: Operation, kind: Kind, name: str) -> bool: ...

    def allows_on(self, call: Call, operation: Operation, topic: Topic) -> bool:
        """The same as `allows`, for the hot paths."""
        ...

    def allowed_bits(
        self, call: Call, operations: Sequence[Operation], kind: Kind, name: str
    ) -> int:
        """Which of `operations` are allowed: bit n for the operation of number n (KIP-430)."""
        ...

    def rules(self, topic: Topic) -> TopicRules: ...

    def start(self, call: Call, work: Work, turn: asyncio.Semaphore) -> None:
        """Run what takes store or registry, which answers `call` itself when it is done."""
        ...
