"""Clients of a simulated log: they send, retry, read, and write down what they saw.

They talk to a broker as handlers of requests would, one connection at a time, and change it when it
does not answer. An idempotent producer repeats what was not acknowledged, in order, with the same
sequences; a plain one may double what it repeats.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from logstore.errors import Corrupt, LogstoreError
from logstore.log.leader import Leader, NotLeading
from logstore.log.log import Log, Topic
from logstore.log.topics import UnknownTopic
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch, records_of
from logstore.registry.store import Condition
from logstore.rows import BrokerStatus, Change, partition_pk, partition_sk
from logstore.testing.audit import records_of_batches
from logstore.testing.history import History, Partition, Sent
from logstore.testing.simulated_broker import SimulatedBroker
from tests.simulation.world import World

T = TypeVar("T")

IN_FLIGHT_MAX = 5
READ_BYTES_MAX = 20_000
READ_ALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    high_watermark: int
    data: bytes
    end_offset: int


def leader_of(topic: Topic, partition: Partition) -> Leader:
    leader = topic.leaders.get(partition.number)
    if leader is None:
        raise NotLeading("not led here")
    return leader


async def produce(partition: Partition, batch: bytes, log: Log) -> int:
    """Append one batch; its base offset once it is committed."""
    topic = log.topics_by_id.get(partition.topic_id)
    if topic is None:
        raise UnknownTopic("no such topic")
    leader = leader_of(topic, partition)
    view = memoryview(batch)
    appended = leader.append(view, check_batch(view, 0, len(view)))
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: LogstoreError | None) -> None:
        if error is not None:
            committed.set_exception(error)
        else:
            committed.set_result(None)

    log.when_committed(appended.seq, done)
    await committed
    return appended.base_offset


async def fetch(
    history: History, partition: Partition, offset: int, acked_end: int, log: Log
) -> Fetched:
    """Committed batches from `offset` on; what is seen of the watermark counts as served.

    `acked_end` is what had been acknowledged when the client asked.
    """
    topic = log.topics_by_id.get(partition.topic_id)
    if topic is None:
        raise UnknownTopic("no such topic")
    leader = leader_of(topic, partition)
    if not log.vouches:
        await log.look_for_seal()
    end = leader.last_stable_offset
    history.serve_watermark(partition, log.epoch, leader.leader_epoch, end)
    history.answer_fetch(partition, end, acked_end)
    assert leader.log_start <= end <= leader.high_watermark <= leader.log_end
    if offset >= end:
        return Fetched(end, b"", offset)
    chunk = log.read_in_memory(leader, offset, end, READ_BYTES_MAX)
    if chunk is None:
        chunk = await log.read(leader, offset, end, READ_BYTES_MAX)
    return Fetched(end, b"".join(chunk.buffers), chunk.end_offset)


Found = tuple[int, int, int] | None


async def look_up(partition: Partition, timestamp: int, log: Log) -> tuple[int, Found, Found]:
    """The end it was answered for, the first record from `timestamp` on, the latest record."""
    topic = log.topics_by_id.get(partition.topic_id)
    if topic is None:
        raise UnknownTopic("no such topic")
    leader = leader_of(topic, partition)
    end = leader.last_stable_offset
    first = await log.offset_for_time(leader, timestamp, end)
    return end, first, await log.offset_of_max_timestamp(leader, end)


class Client:
    """Keeps to one broker until that fails it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._broker: SimulatedBroker | None = None
        self._for: Partition | None = None

    async def broker(self, partition: Partition | None = None) -> SimulatedBroker:
        if partition != self._for and len(self.world.brokers) > 1:
            self.leave()
        self._for = partition
        while self._broker is None or not self._broker.is_serving:
            self._broker = self.world.pick(partition)
            if self._broker is None:
                await self.world.clock.sleep_s(0.1)
        return self._broker

    async def run(self) -> None:
        """Work until everything is healed."""

    def leave(self) -> None:
        self._broker = None

    async def call(
        self,
        handler: Callable[[Log], Awaitable[T]],
        timeout_s: float,
        partition: Partition | None = None,
    ) -> T:
        """Raises what the broker answered, or `TimeoutError`; both mean another broker next."""
        broker = await self.broker(partition)
        try:
            async with asyncio.timeout(timeout_s):
                return await broker.ask(handler)
        except (LogstoreError, TimeoutError) as error:
            if isinstance(error, Corrupt) and not self.world.plan.flips_bits:
                self.world.violate(f"a client was told: {error!r}")
            self.leave()
            raise


class Producer(Client):
    def __init__(self, world: World, name: str, producer_id: int | None) -> None:
        super().__init__(world)
        self.name = name
        self.is_done = False
        self._producer_id = producer_id
        self._count = 0
        self._sequences: dict[Partition, int] = {}

    async def run(self) -> None:
        chance = self.world.chance
        while not self.world.is_healed:
            await self.world.clock.sleep_s(chance.uniform(0, 1.0))
            if self.world.live_topics:
                await self._round(self._choose())
        if self.world.live_topics:
            await self._round(self._choose())
        self.is_done = True

    def _choose(self) -> Partition:
        topic_id = self.world.chance.choice(list(self.world.live_topics))
        _, partitions = self.world.live_topics[topic_id]
        return Partition(topic_id, self.world.chance.randrange(partitions))

    async def _round(self, partition: Partition) -> None:
        """Send a few batches and go on until all of them are acknowledged."""
        chance, history = self.world.chance, self.world.history
        unacked: deque[tuple[Sent, bytes]] = deque(
            self._new_batch(partition) for _ in range(chance.randint(1, IN_FLIGHT_MAX))
        )
        while unacked and not history.is_deleted(partition.topic_id):
            broker = await self.broker(partition)
            self.world.seen["batches sent"] += len(unacked)
            replies = [broker.ask(partial(produce, partition, batch)) for _, batch in unacked]
            left = []
            try:
                async with asyncio.timeout(chance.uniform(1, 10)):
                    await asyncio.wait(replies)
            except TimeoutError:
                self.leave()
            for (sent, batch), reply in zip(unacked, replies, strict=True):
                if reply.done() and not reply.cancelled() and reply.exception() is None:
                    history.ack(sent, reply.result())
                    continue
                reply.cancel()
                if reply.done() and not reply.cancelled() and reply.exception() is not None:
                    self.world.seen[f"produce: {type(reply.exception()).__name__}"] += 1
                left.append((sent, batch))
                self.leave()
            unacked = deque(left)
            if unacked:
                await self.world.clock.sleep_s(chance.uniform(0, 0.5))

    def _new_batch(self, partition: Partition) -> tuple[Sent, bytes]:
        chance = self.world.chance
        count = chance.randint(1, 3)
        padding = b"." * self.world.plan.padding_bytes
        name = self.name.encode()
        values = tuple(b"%s-%d%s" % (name, self._count + n, padding) for n in range(count))
        self._count += count
        timestamp = self.world.clock.now_ms() + chance.randrange(-2_000, 2_000)
        self.world.timestamps.update(dict.fromkeys(values, timestamp))
        records = records_of([(None, value) for value in values], timestamp=timestamp)
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + count
        if self._producer_id is None:
            batch = encode_batch(records)
        else:
            batch = encode_batch(
                records,
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=sequence,
            )
        is_idempotent = self._producer_id is not None
        return self.world.history.send(partition, values, idempotent=is_idempotent), batch


class Reader(Client):
    """Reads partitions forward, and now and then again from their start."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._positions: dict[Partition, int] = {}

    async def run(self) -> None:
        chance = self.world.chance
        while not self.world.is_healed:
            await self.world.clock.sleep_s(chance.uniform(0, 0.5))
            if not self.world.live_topics:
                continue
            topic_id = chance.choice(list(self.world.live_topics))
            partition = Partition(topic_id, chance.randrange(self.world.live_topics[topic_id][1]))
            if chance.random() < 0.1:
                self._positions[partition] = 0
            with suppress(LogstoreError, TimeoutError):
                if chance.random() < 0.2:
                    await self.look_up(partition)
                else:
                    await self.read_once(partition)

    async def read_once(self, partition: Partition) -> bool:
        """One fetch; whether it brought anything."""
        history = self.world.history
        offset = self._positions.get(partition, 0)
        acked_end = history.acked_end(partition) if self.world.leases_hold else 0
        handler = partial(fetch, history, partition, offset, acked_end)
        got = await self.call(handler, 10.0, partition)
        for record in records_of_batches(got.data):
            if record.offset >= got.high_watermark:
                self.world.violate(f"read above the high watermark offset={record.offset}")
            if record.offset < offset:
                continue  # the start of the first batch
            if record.offset != offset:
                self.world.violate(f"read a hole {partition} {offset} {record.offset}")
            history.read(partition, record.offset, record.value)
            offset = record.offset + 1
        moved = offset > self._positions.get(partition, 0)
        self._positions[partition] = offset
        return moved

    async def look_up(self, partition: Partition) -> None:
        """The first record at or after some time, and the one with the largest."""
        history, world = self.world.history, self.world
        known = history.known(partition)
        if not known:
            return
        timestamp = world.timestamps[world.chance.choice(list(known.values()))]
        timestamp += world.chance.randrange(2)
        handler = partial(look_up, partition, timestamp)
        end, first, largest = await self.call(handler, 10.0, partition)
        times = {offset: world.timestamps[value] for offset, value in known.items()}
        before = end if first is None else first[0]
        missed = [at for at, time in times.items() if at < before and time >= timestamp]
        if missed or (first is not None and first[1] < timestamp):
            world.violate(f"time {timestamp} found {first} missed {missed[:3]} {partition}")
        most = max((time for at, time in times.items() if at < end), default=-1)
        if most >= 0 and (largest is None or largest[1] < most):
            world.violate(f"largest timestamp {most} found {largest} {partition}")
        world.seen["times looked up"] += 1

    async def read_all(self, partition: Partition) -> None:
        """From the start to the end, from whoever leads; raises what goes on for a minute."""
        self._positions[partition] = 0
        until_s = self.world.clock.monotonic_s() + READ_ALL_S
        while True:
            try:
                if not await self.read_once(partition):
                    return
            except (LogstoreError, TimeoutError):
                if self.world.clock.monotonic_s() > until_s:
                    raise
                await self.world.clock.sleep_s(0.1)


class Admin(Client):
    """Creates and deletes topics."""

    async def run(self) -> None:
        chance, world = self.world.chance, self.world
        while not world.is_healed:
            await self.world.clock.sleep_s(chance.uniform(0, 10))
            try:
                if len(world.live_topics) < 4 and chance.random() < 0.7:
                    name = f"topic-{chance.randrange(6)}"
                    await self.create(name, chance.randint(1, 3))
                elif len(world.live_topics) > 1:
                    await self.delete(chance.choice(list(world.live_topics)[1:]))
            except (LogstoreError, TimeoutError):
                continue

    async def create(self, name: str, partitions: int) -> None:
        spread = self.world.chance.randrange(1 << 20)

        async def handler(log: Log) -> bytes:
            brokers = sorted(
                one for one, row in log.live_brokers().items() if row.status is BrokerStatus.SERVING
            )
            brokers = brokers or [log.me.broker]  # which is about to stop
            assigned = [
                (brokers[(spread + number) % len(brokers)],) for number in range(partitions)
            ]
            topic = await log.create_topic(name, partitions, {}, assignments=assigned)
            return topic.topic_id

        topic_id = await self.call(handler, 20.0)
        self.world.live_topics[topic_id] = (name, partitions)
        self.world.seen["topics created"] += 1

    async def delete(self, topic_id: bytes) -> None:
        name, _ = self.world.live_topics.pop(topic_id)
        self.world.history.delete(topic_id)

        async def handler(log: Log) -> None:
            topic = log.topics.get(name)
            if topic is not None and topic.topic_id == topic_id:
                await log.delete_topic(name)

        await self.call(handler, 20.0)
        self.world.seen["topics deleted"] += 1


class Mover(Client):
    """Asks for partitions to be led elsewhere, all the time."""

    async def run(self) -> None:
        chance, world = self.world.chance, self.world
        while not world.is_healed:
            await world.clock.sleep_s(chance.uniform(0, 4))
            if not world.live_topics:
                continue
            topic_id = chance.choice(list(world.live_topics))
            name, partitions = world.live_topics[topic_id]
            partition = Partition(topic_id, chance.randrange(partitions))
            target = chance.choice(world.brokers)

            async def handler(
                log: Log, name: str = name, one: Partition = partition, to: int = target
            ) -> None:
                await move(log, name, one, to)

            with suppress(LogstoreError, TimeoutError):
                await self.call(handler, 10.0, partition)
                world.seen["moves asked for"] += 1


async def move(log: Log, name: str, partition: Partition, target: int) -> None:
    """Name the broker that is to lead next, as ElectLeaders does."""
    topic = log.topics_by_id.get(partition.topic_id)
    if topic is None:
        raise UnknownTopic("no such topic")
    row = topic.rows[partition.number]
    await log.performer.registry.update_if(
        partition_pk(*partition),
        partition_sk(*partition),
        {"target": target},
        Condition("leader_epoch", "=", row.leader_epoch),
    )
    await log.publish([Change(name, *partition)])


async def crowd_in(client: Client, partition: Partition, count: int) -> None:
    """Many producers that send one batch each: states grow, takes go in pieces."""
    history = client.world.history
    first = client.world.chance.randrange(1 << 40)

    async def handler(log: Log) -> None:
        sent = []
        for number in range(count):
            value = b"crowd-%d" % (first + number)
            batch = encode_batch(
                records_of([(None, value)], timestamp=1),
                producer_id=first + number,
                producer_epoch=0,
                base_sequence=0,
            )
            history.send(partition, (value,), idempotent=True)
            client.world.timestamps[value] = 1
            sent.append(produce(partition, batch, log))
        await asyncio.gather(*sent, return_exceptions=True)

    with suppress(LogstoreError, TimeoutError):
        await client.call(handler, 20.0)
