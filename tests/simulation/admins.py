"""Administrators of a simulated cluster: topics, placement, deletion of records, all the time."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from broker.errors import Refuse
from broker.replica_requests import cancel, reassign
from logstore.errors import LogstoreError
from logstore.log.leader import NotLeading
from logstore.log.log import Log
from logstore.log.records_deletion import Raise, new_log_start, raise_log_start
from logstore.log.replica_changes import Placement, change_placement
from logstore.registry.store import Condition
from logstore.rows import BrokerStatus, Change, PartitionRow, partition_pk, partition_sk
from logstore.testing.history import Partition
from tests.simulation.clients import Client, leader_of, topic_of

TOPICS_MAX = 4
PARTITIONS_MAX = 10


class Admin(Client):
    """Creates, grows and deletes topics; a name comes back now and then, as another topic."""

    async def run(self) -> None:
        chance, world = self.world.chance, self.world
        while not world.is_healed:
            await self.world.clock.sleep_s(chance.uniform(0, 10))
            with suppress(LogstoreError, TimeoutError):
                await self._change_something()

    async def _change_something(self) -> None:
        chance, world = self.world.chance, self.world
        if len(world.live_topics) < TOPICS_MAX and chance.random() < 0.5:
            await self.create(f"topic-{chance.randrange(6)}", chance.randint(1, 3))
        elif len(world.brokers) > 1 and chance.random() < 0.4:
            await self.grow(chance.choice(list(world.live_topics)))
        elif len(world.live_topics) > 1:
            topic_id = chance.choice(list(world.live_topics)[1:])
            name, partitions = world.live_topics[topic_id]
            await self.delete(topic_id)
            if len(world.brokers) > 1 and chance.random() < 0.5:
                await self.create(name, partitions)
                world.seen["created again"] += 1

    async def create(self, name: str, partitions: int) -> None:
        spread = self.world.chance.randrange(1 << 20)
        replicas = self.world.chance.randint(1, self.world.plan.replicas)

        async def handler(log: Log) -> bytes:
            assigned = _assign(log, range(partitions), replicas, spread)
            topic = await log.create_topic(
                name, partitions, {}, replicas=replicas, assignments=assigned
            )
            return topic.topic_id

        topic_id = await self.call(handler, 20.0)
        self.world.live_topics[topic_id] = (name, partitions)
        self.world.seen["topics created"] += 1

    async def grow(self, topic_id: bytes) -> None:
        name, before = self.world.live_topics[topic_id]
        count = before + self.world.chance.randint(1, 2)
        spread = self.world.chance.randrange(1 << 20)
        if count > PARTITIONS_MAX:
            return

        async def handler(log: Log) -> int:
            topic = topic_of(log, Partition(topic_id, 0))
            new = range(topic.partition_count, count)
            if new:
                assigned = _assign(log, new, topic.replicas, spread)
                await log.create_partitions(name, count, assigned)
            return count

        there = await self.call(handler, 20.0)
        if topic_id in self.world.live_topics:
            self.world.live_topics[topic_id] = (name, there)
            self.world.seen["partitions added"] += 1

    async def delete(self, topic_id: bytes) -> None:
        name, _ = self.world.live_topics.pop(topic_id)
        self.world.history.delete(topic_id)

        async def handler(log: Log) -> None:
            topic = log.topics.get(name)
            if topic is not None and topic.topic_id == topic_id:
                await log.delete_topic(name)

        await self.call(handler, 20.0)
        self.world.seen["topics deleted"] += 1


def _assign(
    log: Log, partitions: Sequence[int], replicas: int, spread: int
) -> list[tuple[int, ...]]:
    serving = sorted(
        one for one, row in log.live_brokers().items() if row.status is BrokerStatus.SERVING
    )
    serving = serving or [log.me.broker]  # which is about to stop
    count = min(replicas, len(serving))
    return [
        tuple(serving[(spread + number + n) % len(serving)] for n in range(count))
        for number in partitions
    ]


class Mover(Client):
    """Asks for partitions to be led elsewhere and for other replicas, all the time."""

    async def run(self) -> None:
        chance, world = self.world.chance, self.world
        while not world.is_healed:
            await world.clock.sleep_s(chance.uniform(0, 4))
            if not world.live_topics:
                continue
            topic_id = chance.choice(list(world.live_topics))
            name, partitions = world.live_topics[topic_id]
            partition = Partition(topic_id, chance.randrange(partitions))
            with suppress(LogstoreError, TimeoutError, Refuse):
                if chance.random() < 0.4:
                    await self._change_replicas(name, partition)
                else:
                    await self._move(name, partition)

    async def _move(self, name: str, partition: Partition) -> None:
        target = self.world.chance.choice(self.world.brokers)

        async def handler(log: Log) -> None:
            await move(log, name, partition, target)

        await self.call(handler, 10.0, partition)
        self.world.seen["moves asked for"] += 1

    async def _change_replicas(self, name: str, partition: Partition) -> None:
        chance, brokers = self.world.chance, list(self.world.brokers)
        wanted = chance.sample(brokers, min(len(brokers), chance.randint(1, 3)))
        gives_up = chance.random() < 0.2

        async def handler(log: Log) -> None:
            def decide(row: PartitionRow) -> Placement:
                if gives_up:
                    return cancel(row) if row.reassigning else Placement.of(row)
                live = log.live_brokers()
                return reassign(row, partition.number, wanted, known=log.brokers, live=live)

            await log.performer.run(change_placement(*partition, decide))
            await log.publish([Change(name, *partition)])

        await self.call(handler, 10.0, partition)
        self.world.seen["replicas changed"] += 1


async def move(log: Log, name: str, partition: Partition, target: int) -> None:
    """Name the broker that is to lead next, as ElectLeaders does."""
    row = topic_of(log, partition).rows[partition.number]
    await log.performer.registry.update_if(
        partition_pk(*partition),
        partition_sk(*partition),
        {"target": target},
        Condition("leader_epoch", "=", row.leader_epoch),
    )
    await log.publish([Change(name, *partition)])


class Deleter(Client):
    """Deletes the oldest records of partitions, as DeleteRecords and retention do."""

    async def run(self) -> None:
        chance, world = self.world.chance, self.world
        while not world.is_healed:
            await world.clock.sleep_s(chance.uniform(0, 2))
            if not world.live_topics:
                continue
            topic_id = chance.choice(list(world.live_topics))
            name, partitions = world.live_topics[topic_id]
            partition = Partition(topic_id, chance.randrange(partitions))
            # Mostly all there is, or hardly anything could ever be trimmed.
            share = chance.choice((0.5, 0.9, 1.0, 1.0))
            with suppress(LogstoreError, TimeoutError):
                await self._delete(name, partition, share)

    async def _delete(self, name: str, partition: Partition, share: float) -> None:
        history = self.world.history

        async def handler(log: Log) -> int:
            leader = leader_of(log, partition)
            if leader.is_released:
                raise NotLeading("released")
            wanted = int(leader.high_watermark * share)
            offset = new_log_start(wanted, high_watermark=leader.high_watermark)
            if offset <= leader.log_start:
                return leader.log_start
            history.ask_log_start(partition, offset)
            chain = leader.stretches[-1].chain
            found = await log.performer.run(
                raise_log_start(Raise(*partition, chain, leader.leader_epoch, offset))
            )
            if found is None:
                raise NotLeading("another leadership has begun")
            log_start = max(found, leader.row.log_start)
            leader.follow_row(replace(leader.row, log_start=log_start))
            await log.publish([Change(name, *partition)])
            return log_start

        log_start = await self.call(handler, 10.0, partition)
        history.ack_log_start(partition, log_start)
        self.world.seen["records deleted"] += 1
