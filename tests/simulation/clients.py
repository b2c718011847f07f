"""Clients of a simulated log: they send, retry, read, and write down what they saw.

They talk to a broker as handlers of requests would, one connection at a time, and change it when it
does not answer. An idempotent producer repeats what was not acknowledged, in order, with the same
sequences; a plain one may double what it repeats.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from logstore.errors import Corrupt, LogstoreError
from logstore.log.leader import Leader, NotLeading
from logstore.log.log import Log, Topic
from logstore.log.topics import UnknownTopic
from logstore.records.batch import check_batch
from logstore.records.encode import encode_batch, records_of
from logstore.testing.history import Partition, Sent
from logstore.testing.simulated_broker import SimulatedBroker
from tests.simulation.world import World

T = TypeVar("T")

IN_FLIGHT_MAX = 5


def topic_of(log: Log, partition: Partition) -> Topic:
    topic = log.topics_by_id.get(partition.topic_id)
    if topic is None or partition.number >= topic.partition_count:
        raise UnknownTopic("no such partition")
    return topic


def leader_of(log: Log, partition: Partition) -> Leader:
    leader = topic_of(log, partition).leaders.get(partition.number)
    if leader is None:
        raise NotLeading("not led here")
    return leader


async def produce(partition: Partition, batch: bytes, log: Log) -> int:
    """Append one batch; its base offset once it is committed."""
    leader = leader_of(log, partition)
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


class Client:
    """Keeps to one broker until that fails it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._broker: SimulatedBroker | None = None
        self._for: tuple[Partition | None, bool] = (None, False)

    async def broker(
        self, partition: Partition | None = None, *, follower: bool = False
    ) -> SimulatedBroker:
        if (partition, follower) != self._for and len(self.world.brokers) > 1:
            self.leave()
        self._for = (partition, follower)
        while self._broker is None or not self._broker.is_serving:
            self._broker = self.world.pick(partition, follower=follower)
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
        *,
        follower: bool = False,
    ) -> T:
        """Raises what the broker answered, or `TimeoutError`; both mean another broker next."""
        broker = await self.broker(partition, follower=follower)
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
        sent = self.world.history.send(
            partition, values, idempotent=is_idempotent, sender=self.name
        )
        return sent, batch


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
