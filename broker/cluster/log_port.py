"""The controller's interface to the log: the cluster as known here, and where to report."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from logstore.formats.broker_row import BrokerRow
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow
from logstore.protocol.leading.takeover import Known, RecoveredPartition
from logstore.protocol.rules.liveness import Liveness
from logstore.runners.step_runner import StepRunner


class ClusterTopic(Protocol):
    """One life of a topic; `rows` are all its partitions, in order."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def replicas(self) -> int: ...

    @property
    def rows(self) -> Sequence[PartitionRow]: ...


class OwnBroker(Protocol):
    @property
    def broker(self) -> int: ...


class ClusterLog(Protocol):
    """`logstore.epoch.log.Log` is one."""

    @property
    def me(self) -> OwnBroker: ...

    @property
    def epoch(self) -> int: ...

    @property
    def cluster_id(self) -> bytes: ...

    @property
    def runner(self) -> StepRunner: ...

    @property
    def fenced(self) -> asyncio.Event: ...

    @property
    def format_level(self) -> int: ...

    @property
    def topics(self) -> Mapping[str, ClusterTopic]: ...

    @property
    def topics_by_id(self) -> Mapping[bytes, ClusterTopic]: ...

    @property
    def brokers(self) -> Mapping[int, BrokerRow]: ...

    @property
    def liveness(self) -> Liveness: ...

    @property
    def followed_chain(self) -> Known:
        """Chains as far as they are followed here."""
        ...

    def on_change(self, callback: Callable[[ClusterTopic], None]) -> None: ...

    def mark_dead(self, broker: int, epoch: int) -> bool: ...

    def on_death(self, callback: Callable[[], None]) -> None: ...

    async def check_not_sealed(self) -> None: ...

    async def publish(
        self, changes: Sequence[FeedChange], *, is_urgent: bool = False
    ) -> object: ...

    async def lead_recovered(self, taken: Sequence[RecoveredPartition]) -> None: ...
