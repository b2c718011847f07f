"""Administrators of a simulated cluster: topics, placement, deletion of records, all the time."""

from contextlib import suppress
from typing import Any

from broker.answers.decisions.refuse import Refuse
from broker.answers.log_starts import NewStart, raise_led
from broker.answers.replica_requests import cancel, reassign
from logstore.epoch.log import Log, Topic
from logstore.errors import LogstoreError, Retryable
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import PartitionRow, partition_pk, partition_sk
from logstore.ports.registry import Comparison
from logstore.protocol.deletion.records_deletion import new_log_start
from logstore.protocol.topics.life import UnknownTopic
from logstore.protocol.topics.replica_changes import Placement, change_placement
from logstore.testing.history import Partition
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from logstore.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from logstore.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from logstore.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.kafka import MAIN, METADATA, METADATA_S, Client, judge_code

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, CREATE_PARTITIONS = 19, 20, 21, 37
TOPICS_MAX = 4
PARTITIONS_MAX = 10
TIMEOUT_S = 20.0
ADMIN_CODES = {
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # the broker that was chosen has died since
}
"""Also what a repeat gets whose first attempt succeeded, its answer lost."""


def topic_of(log: Log, partition: Partition) -> Topic:
    topic = log.topics_by_id.get(partition.topic_id)
    if topic is None or partition.number >= topic.partition_count:
        raise UnknownTopic("no such partition")
    return topic


class Admin(Client):
    """Creates, grows and deletes topics; a name comes back now and then, as another topic."""

    async def run(self) -> None:
        while not self.world.is_healed:
            await self.pause(20 * self.world.plan.pause_s_max)
            await self._change_something()

    async def _change_something(self) -> None:
        rng, world = self.world.rng, self.world
        if len(world.live_topics) < TOPICS_MAX and rng.random() < 0.5:
            await self.create(f"topic-{rng.randrange(6)}", rng.randint(1, 3))
        elif len(world.brokers) > 1 and rng.random() < 0.4:
            await self.grow(rng.choice(list(world.live_topics)))
        elif len(world.live_topics) > 1:
            topic_id = rng.choice(list(world.live_topics)[1:])
            name, partitions = world.live_topics[topic_id]
            await self.delete(topic_id)
            if len(world.brokers) > 1 and rng.random() < 0.5:
                world.seen["created again"] += await self.create(name, partitions)

    async def create(self, name: str, partitions: int) -> bool:
        """Whether it is there now, as far as is known."""
        replicas = self.world.rng.randint(1, self.world.plan.replicas)
        configs = [CreatableTopicConfig(*one) for one in self.world.draw_configs().items()]
        topic = CreatableTopic(name, partitions, replicas, configs=configs)
        request = CreateTopicsRequest([topic], 10_000)
        answer = await self._ask_any(CREATE_TOPICS, 7, request)
        if answer is None or answer.topics[0].error_code:
            if answer is not None:
                self._judge(answer.topics[0].error_code, "create topics")
            return await self._adopt(name)
        self.world.live_topics[answer.topics[0].topic_id] = (name, partitions)
        self.world.seen["topics created"] += 1
        return True

    async def _adopt(self, name: str) -> bool:
        """The answer to a creation was lost; the topic may be there all the same."""
        request = MetadataRequest([MetadataRequestTopic(name=name)], False)
        answer = await self._ask_any(METADATA, 12, request, METADATA_S)
        if answer is None or answer.topics[0].error_code:
            return False
        topic = answer.topics[0]
        if not self.world.history.is_deleted(topic.topic_id):
            self.world.live_topics[topic.topic_id] = (name, len(topic.partitions))
        return topic.topic_id in self.world.live_topics

    async def grow(self, topic_id: bytes) -> None:
        name, before = self.world.live_topics[topic_id]
        count = before + self.world.rng.randint(1, 2)
        if count > PARTITIONS_MAX:
            return
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, count)], 10_000)
        answer = await self._ask_any(CREATE_PARTITIONS, 3, request)
        if answer is None or answer.results[0].error_code:
            if answer is not None:
                self._judge(answer.results[0].error_code, "create partitions")
        elif topic_id in self.world.live_topics:
            self.world.live_topics[topic_id] = (name, count)
            self.world.seen["partitions added"] += 1

    async def delete(self, topic_id: bytes) -> None:
        self.world.live_topics.pop(topic_id)
        self.world.history.delete(topic_id)
        request = DeleteTopicsRequest([], [DeleteTopicState(None, topic_id)], 10_000)
        answer = await self._ask_any(DELETE_TOPICS, 6, request)
        if answer is not None and not answer.responses[0].error_code:
            self.world.seen["topics deleted"] += 1
        elif answer is not None:
            self._judge(answer.responses[0].error_code, "delete topics")

    async def _ask_any(
        self, key: int, version: int, request: object, timeout_s: float = TIMEOUT_S
    ) -> Any:
        wire = await self.any_wire()
        return None if wire is None else await self.ask(wire, key, version, request, timeout_s)

    def _judge(self, code: int, what: str) -> None:
        if code in ADMIN_CODES:
            self.world.seen[f"{what}: {ErrorCode(code).name}"] += 1
        else:
            judge_code(self.world, code, what)


class Mover(Client):
    """Asks for partitions to be led elsewhere and for other replicas, all the time."""

    async def run(self) -> None:
        rng, world = self.world.rng, self.world
        while not world.is_healed:
            await self.pause(8 * world.plan.pause_s_max)
            if not world.live_topics:
                continue
            topic_id = rng.choice(list(world.live_topics))
            name, partitions = world.live_topics[topic_id]
            partition = Partition(topic_id, rng.randrange(partitions))
            with suppress(LogstoreError, TimeoutError, Refuse):
                if rng.random() < 0.4:
                    await self._change_replicas(name, partition)
                else:
                    await self._move(name, partition)

    async def _move(self, name: str, partition: Partition) -> None:
        target = self.world.rng.choice(self.world.brokers)

        async def handler(log: Log) -> None:
            await move(log, name, partition, target)

        await self.call(handler, 10.0)
        self.world.seen["moves asked for"] += 1

    async def _change_replicas(self, name: str, partition: Partition) -> None:
        rng, brokers = self.world.rng, list(self.world.brokers)
        wanted = rng.sample(brokers, min(len(brokers), rng.randint(1, 3)))
        gives_up = rng.random() < 0.2

        async def handler(log: Log) -> None:
            def decide(row: PartitionRow) -> Placement:
                if gives_up:
                    return cancel(row) if row.reassigning else Placement.of(row)
                live = log.live_brokers()
                return reassign(row, partition.number, wanted, known=log.brokers, live=live)

            await log.runner.run(change_placement(*partition, decide))
            await log.publish([FeedChange(name, *partition)])

        await self.call(handler, 10.0)
        self.world.seen["replicas changed"] += 1


async def move(log: Log, name: str, partition: Partition, target: int) -> None:
    """Name the broker that is to lead next, as ElectLeaders does."""
    row = topic_of(log, partition).rows[partition.number]
    await log.runner.registry.update_if(
        partition_pk(*partition),
        partition_sk(*partition),
        {"target": target},
        Comparison("leader_epoch", "=", row.leader_epoch),
    )
    await log.publish([FeedChange(name, *partition)])


class Deleter(Client):
    """Deletes the oldest records of partitions, by DeleteRecords or as retention does."""

    async def run(self) -> None:
        rng, world = self.world.rng, self.world
        while not world.is_healed:
            await self.pause(4 * world.plan.pause_s_max)
            if not world.live_topics:
                continue
            topic_id = rng.choice(list(world.live_topics))
            name, partitions = world.live_topics[topic_id]
            partition = Partition(topic_id, rng.randrange(partitions))
            # Mostly all there is, or hardly anything could ever be trimmed.
            share = rng.choice((0.5, 0.9, 1.0, 1.0))
            try:
                if name == MAIN:
                    await self._delete(partition, share)
                else:  # a name may have come to mean another topic
                    await self._raise_log_start(partition, share)
            except (LogstoreError, TimeoutError):
                self.forget(partition)

    async def _delete(self, partition: Partition, share: float) -> None:
        offset = int(self.world.history.acked_end(partition) * share)
        if offset > self.world.history.start_asked(partition):
            await self.delete_below(MAIN, partition, offset)

    async def delete_below(self, name: str, partition: Partition, offset: int) -> bool:
        """Whether it was answered that they are deleted."""
        history = self.world.history
        found = await self.leader_of(partition)
        if found is None:
            return False
        history.ask_log_start(partition, offset)
        wanted = [DeleteRecordsPartition(partition.number, offset)]
        request = DeleteRecordsRequest([DeleteRecordsTopic(name, wanted)], 10_000)
        answer = await self.ask(found[0], DELETE_RECORDS, 2, request, TIMEOUT_S)
        if answer is None:
            return False
        one = answer.topics[0].partitions[0]
        if one.error_code:
            self.forget(partition)
            if one.error_code != ErrorCode.OFFSET_OUT_OF_RANGE or self.world.leases_hold:
                judge_code(self.world, one.error_code, "delete records")
            return False
        history.ack_log_start(partition, one.low_watermark)
        self.world.seen["records deleted"] += 1
        return True

    async def _raise_log_start(self, partition: Partition, share: float) -> None:
        history = self.world.history
        place = await self.place_of(partition)
        life = None if place is None else self.world.primaries.get(place.leader)
        if life is None or not life.is_serving:
            raise Retryable("no leader is known")

        async def handler(log: Log) -> int:
            topic = topic_of(log, partition)
            leader = topic.leaders.get(partition.number)
            if leader is None or leader.is_released:
                raise Retryable("not led here")
            wanted = int(leader.high_watermark * share)
            offset = new_log_start(wanted, high_watermark=leader.high_watermark)
            if offset <= leader.log_start:
                return leader.log_start
            history.ask_log_start(partition, offset)
            (outcome,) = await raise_led(log, [NewStart(topic, leader, offset)])
            if isinstance(outcome, int):
                return leader.log_start
            raise outcome or Retryable("another leadership has begun")

        history.ack_log_start(partition, await self.call(handler, 10.0, life))
        self.world.seen["records deleted"] += 1
