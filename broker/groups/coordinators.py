"""The coordinators of this broker: one per partition of `__consumer_offsets` that it leads.

`on_lead` and `on_retire` are called as leaderships begin and end. `follow` finds these out by
looking at the log; it is called on each request, so that no notification has to come in time, and
by `run`, so that groups without requests are looked after too.
"""

import logging
import random
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from broker.cluster.new_partitions import RunningLoad, place_partitions
from broker.groups.coordinator import Coordinator, RebalanceReason
from broker.groups.decisions.group_partition import OFFSETS_TOPIC, partition_of
from broker.groups.decisions.limits import GroupLimits
from broker.groups.deleted_topics import DeletedTopics
from broker.groups.log_port import LedPartition
from broker.network.timers import Timers
from logstore.config.broker import BrokerSettings
from logstore.epoch.leader import Leader
from logstore.epoch.log import Log, Topic
from logstore.errors import LogstoreError
from logstore.ports.clock import Clock
from logstore.protocol.steps import believed_ms
from logstore.protocol.topics.life import TopicExists
from logstore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from asyncio import TaskGroup

FOLLOW_S = 1.0
CLIENT_ID_CHARACTERS_MAX = 255
TOPIC_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}

logger = logging.getLogger(__name__)


class Ids(Protocol):
    """`random.Random`, for one."""

    def getrandbits(self, k: int, /) -> int: ...


class Coordinators:
    def __init__(
        self,
        log: Log,
        settings: BrokerSettings,
        *,
        timers: Timers,
        clock: Clock,
        tasks: "TaskGroup",
        ids: Ids | None = None,
    ) -> None:
        self.rebalances: Counter[RebalanceReason] = Counter()
        """Begun by this broker, by the first reason for each."""
        self._log = log
        self._partition_count = settings.number("offsets.topic.num.partitions")
        self._replicas = settings.number("offsets.topic.replication.factor")
        self._commit_timeout_s = settings.number("offsets.commit.timeout.ms") / 1000
        self._settings = settings
        self._timers = timers
        self._clock = clock
        self._tasks = tasks
        self._ids = ids or random.SystemRandom()
        self._led: dict[int, Coordinator] = {}
        self._leaders: dict[int, Leader] = {}
        self._is_being_created = False
        self._deleted_topics = DeletedTopics(
            log.runner, clock, start=self._start, id_of=self._topic_id, loaded=self._loaded
        )
        settings.on_change(self._settings_changed)
        log.on_change(self._changed)

    def _settings_changed(self) -> None:
        settings = self._settings
        self.offset_metadata_bytes_max = settings.number("offset.metadata.max.bytes")
        self._sweep_s = settings.number("offsets.retention.check.interval.ms") / 1000
        self._limits = limits_of(settings)
        for coordinator in self._led.values():
            coordinator.limits = self._limits

    # Leaderships

    def on_lead(self, partition: int, leader: Leader) -> None:
        """This broker leads `partition` from now on, its leadership-begin entry committed."""
        if self._leaders.get(partition) is leader:
            return
        self.on_retire(partition)
        coordinator = Coordinator(
            LedPartition(self._log, leader),
            self._limits,
            timers=self._timers,
            clock=self._clock,
            start=self._start,
            commit_timeout_s=self._commit_timeout_s,
            used_bytes=self._used_bytes,
            rebalances=self.rebalances,
        )
        self._led[partition], self._leaders[partition] = coordinator, leader
        self._start(self._load(coordinator))

    async def _load(self, coordinator: Coordinator) -> None:
        await coordinator.load()
        if coordinator.is_loaded:
            # Topics may have been deleted while no coordinator of these groups was there.
            await self._deleted_topics.suspect([coordinator])

    def on_retire(self, partition: int) -> None:
        self._leaders.pop(partition, None)
        coordinator = self._led.pop(partition, None)
        if coordinator is not None:
            coordinator.retire()

    def follow(self) -> None:
        """Begin and end coordinators as the log has begun and ended leaderships."""
        topic = self._log.topics.get(OFFSETS_TOPIC)
        leaders = {} if topic is None else topic.leaders
        for partition in [p for p in self._led if leaders.get(p) is not self._leaders[p]]:
            self.on_retire(partition)
        for partition, leader in leaders.items():
            if leader.has_begun and not (leader.is_retired or leader.is_released):
                self.on_lead(partition, leader)

    def _changed(self, topic: Topic) -> None:
        if topic.name == OFFSETS_TOPIC:
            self.follow()
        elif topic.is_deleted:
            self._deleted_topics.dropped(topic)

    async def run(self) -> None:
        """Follow the log, and drop offsets that are too old or void, until cancelled."""
        sweep_at_s = self._clock.monotonic_s() + self._sweep_s
        while True:
            self.follow()
            await self._clock.sleep_s(FOLLOW_S)
            if self._clock.monotonic_s() >= sweep_at_s:
                await self._sweep()
                sweep_at_s = self._clock.monotonic_s() + self._sweep_s

    async def _sweep(self) -> None:
        try:
            now_ms = await self._log.runner.run(believed_ms())
        except LogstoreError as error:
            logger.warning("offsets of groups are not expired, the time is unknown: %s", error)
            return
        for coordinator in self.loaded():
            await coordinator.sweep(now_ms)
        await self._deleted_topics.suspect(self.loaded())

    # Looking up

    def find(self, group_id: str) -> Coordinator | ErrorCode:
        """The coordinator of a group, or the code to answer where it is not here."""
        topic = self._log.topics.get(OFFSETS_TOPIC)
        if topic is None or self._log.fenced.is_set():
            return ErrorCode.NOT_COORDINATOR
        partition = partition_of(group_id, topic.partition_count)
        leader = topic.leaders.get(partition)
        if leader is None or leader.is_retired or leader.is_released:
            self.on_retire(partition)
            return ErrorCode.NOT_COORDINATOR
        if self._leaders.get(partition) is not leader:
            if not leader.has_begun:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self.on_lead(partition, leader)
        coordinator = self._led[partition]
        if coordinator.is_retired:
            return ErrorCode.NOT_COORDINATOR
        # Upon it clients ask again, for all kinds of request alike.
        is_known = coordinator.is_loaded and coordinator.understands(group_id)
        return coordinator if is_known else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _topic_id(self, name: str) -> bytes | None:
        topic = self._log.topics.get(name)
        return None if topic is None else topic.topic_id

    def _used_bytes(self) -> int:
        return sum(coordinator.states.byte_count for coordinator in self._led.values())

    def loaded(self) -> list[Coordinator]:
        self.follow()
        return self._loaded()

    def _loaded(self) -> list[Coordinator]:
        return [c for c in self._led.values() if c.is_loaded and not c.is_retired]

    @property
    def is_loading(self) -> bool:
        """Whether some groups that are, or are about to be, coordinated here are not known yet."""
        self.follow()
        topic = self._log.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return False
        me = self._log.me.broker
        ours = {number for number, row in enumerate(topic.rows) if row.broker == me}
        ours -= {number for number, leader in topic.leaders.items() if leader.is_released}
        return any(n not in self._led or not self._led[n].is_loaded for n in ours)

    def new_member_id(self, name: str) -> str:
        """`name` and a random UUID, as Kafka makes them."""
        bits = self._ids.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return f"{name[:CLIENT_ID_CHARACTERS_MAX]}-{uuid}"

    # The topic

    def create_topic(self) -> None:
        """Begin to create `__consumer_offsets`, once however many ask."""
        if not self._is_being_created:
            self._is_being_created = True
            self._start(self._create_topic())

    async def _create_topic(self) -> None:
        try:
            await self._log.create_topic(
                OFFSETS_TOPIC,
                self._partition_count,
                TOPIC_CONFIGS,
                replicas=self._replicas,
                assignments=place_partitions(
                    self._log,
                    self._partition_count,
                    self._replicas,
                    RunningLoad(self._log.topics.values()),
                ),
            )
            logger.info("topic created: name=%s", OFFSETS_TOPIC)
        except TopicExists:
            pass
        except LogstoreError as error:
            logger.warning("topic not created: name=%s %s", OFFSETS_TOPIC, error)
        finally:
            self._is_being_created = False

    def _start(self, work: Coroutine[Any, Any, object]) -> object:
        """Raises `RuntimeError` once the broker ends: its tasks take no more work."""
        try:
            return self._tasks.create_task(work)
        except RuntimeError:
            work.close()
            raise


def limits_of(settings: BrokerSettings) -> GroupLimits:
    return GroupLimits(
        session_min_ms=settings.number("group.min.session.timeout.ms"),
        session_max_ms=settings.number("group.max.session.timeout.ms"),
        initial_delay_ms=settings.number("group.initial.rebalance.delay.ms"),
        size_max=settings.number("group.max.size"),
        group_bytes_max=settings.number("logstore.group.bytes.max"),
        memory_bytes_max=settings.number("logstore.groups.bytes.max"),
        retention_ms=settings.number("offsets.retention.minutes") * 60_000,
    )
