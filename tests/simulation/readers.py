"""Consumers of a simulated log, from its leader or from a follower.

What is answered, and when a broker must look for a seal first, is as `broker.look` and
`broker.sure` have it.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from logstore.errors import Corrupt, Invalid, LogstoreError, NotFound
from logstore.log.leader import Leader, NotLeading
from logstore.log.log import Log
from logstore.log.read import Chunk, Readable
from logstore.testing.audit import records_of_batches
from logstore.testing.history import Partition
from tests.simulation.clients import Client, leader_of, topic_of
from tests.simulation.world import World

READ_BYTES_MAX = 20_000
READ_ALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    high_watermark: int
    data: bytes
    end_offset: int


class OffsetOutOfRange(Invalid):
    """The log begins above the offset asked for."""

    def __init__(self, log_start: int) -> None:
        super().__init__(f"log start={log_start}")
        self.log_start = log_start


Found = tuple[int, int, int] | None


class Fetch:
    """One request for committed batches; what is seen of the watermark counts as served."""

    def __init__(
        self, world: World, partition: Partition, offset: int, *, may_follow: bool = False
    ) -> None:
        self._world = world
        self._history = world.history
        self._partition = partition
        self._offset = offset
        self._may_follow = may_follow
        self._acked_end = self._history.acked_end(partition) if world.leases_hold else 0
        """What had been acknowledged when the client asked."""

    async def answer(self, log: Log) -> Fetched:
        if not log.vouches:
            await log.look_for_seal()
        found = self._find(log)
        if isinstance(found, Leader) and self._offset > found.log_end:
            await log.look_for_seal()
            self._world.violate(f"H14: log end went back {self._partition} offset={self._offset}")
        end = found.last_stable_offset
        is_leader = isinstance(found, Leader)
        leader_epoch = found.leader_epoch if is_leader else None
        self._history.serve_watermark(self._partition, log.epoch, leader_epoch, end)
        self._history.serve_log_start(self._partition, log.epoch, found.log_start)
        if is_leader:
            self._history.answer_fetch(self._partition, end, self._acked_end)
        else:
            self._world.seen["read from a follower"] += 1
        # A follower may know of a later log start than of what is committed.
        if is_leader and not found.log_start <= end <= found.high_watermark <= found.log_end:
            offsets = (found.log_start, end, found.high_watermark, found.log_end)
            self._world.violate(f"offsets are out of order {self._partition} {offsets}")
        if self._offset < found.log_start:
            raise OffsetOutOfRange(found.log_start)
        if self._offset >= end:
            return Fetched(end, b"", self._offset)
        chunk = log.read_in_memory(found, self._offset, end, READ_BYTES_MAX)
        if chunk is None:
            chunk = await self._read_cold(log, found, end)
        return Fetched(end, b"".join(chunk.buffers), chunk.end_offset)

    def _find(self, log: Log) -> Readable:
        topic, number = topic_of(log, self._partition), self._partition.number
        leader = topic.leaders.get(number)
        if leader is not None and not leader.is_released:
            return leader
        followed = topic.followers.get(number) if self._may_follow else None
        if followed is None or not followed.is_ready:
            raise NotLeading("not led here")
        return followed

    async def _read_cold(self, log: Log, found: Readable, end: int) -> Chunk:
        """What is gone below the log start that somebody asked for is gone in good order."""
        try:
            return await log.read(found, self._offset, end, READ_BYTES_MAX)
        except (NotFound, Corrupt) as error:
            history = self._history
            if history.is_deleted(self._partition.topic_id):
                raise NotLeading("the topic is gone") from error
            if history.start_asked(self._partition) <= self._offset:
                if isinstance(error, NotFound):
                    self._world.violate(f"H1: gone {self._partition} {self._offset}: {error!r}")
                raise
            self._world.seen[f"trimmed under a read: {type(error).__name__}"] += 1
            raise OffsetOutOfRange(max(found.log_start, self._offset)) from error


async def look_up(partition: Partition, timestamp: int, log: Log) -> tuple[int, Found, Found, int]:
    """The end it was answered for, first record from `timestamp` on, latest record, log start."""
    leader = leader_of(log, partition)
    end = leader.last_stable_offset
    first = await log.offset_for_time(leader, timestamp, end)
    return end, first, await log.offset_of_max_timestamp(leader, end), leader.log_start


class Reader(Client):
    """Reads partitions forward, and now and then again from their start."""

    def __init__(self, world: World, name: str = "reader") -> None:
        super().__init__(world)
        self.name = name

    async def run(self) -> None:
        chance = self.world.chance
        while not self.world.is_healed:
            await self.world.clock.sleep_s(chance.uniform(0, 0.5))
            if not self.world.live_topics:
                continue
            topic_id = chance.choice(list(self.world.live_topics))
            partition = Partition(topic_id, chance.randrange(self.world.live_topics[topic_id][1]))
            if chance.random() < 0.1:
                self.world.history.assign(self.name, partition, 0)
            follower = chance.random() < self.world.plan.follower_reads
            with suppress(LogstoreError, TimeoutError):
                if chance.random() < 0.2:
                    await self.look_up(partition)
                else:
                    await self.read_once(partition, follower=follower)

    async def read_once(self, partition: Partition, *, follower: bool = False) -> bool:
        """One fetch; whether it brought anything."""
        history = self.world.history
        offset = history.position(self.name, partition)
        fetch = Fetch(self.world, partition, offset, may_follow=follower)
        try:
            got = await self.call(fetch.answer, 10.0, partition, follower=follower)
        except OffsetOutOfRange as error:
            # As a consumer that resets to the earliest offset.
            self.world.seen["out of range"] += 1
            history.assign(self.name, partition, error.log_start)
            raise
        records = [(one.offset, one.value) for one in records_of_batches(got.data)]
        if records and records[-1][0] >= got.high_watermark:
            self.world.violate(f"read above the high watermark offset={records[-1][0]}")
        # The first batch may begin below what was asked for.
        history.poll(self.name, partition, [one for one in records if one[0] >= offset])
        return history.position(self.name, partition) > offset

    async def look_up(self, partition: Partition) -> None:
        """The first record at or after some time, and the one with the largest."""
        history, world = self.world.history, self.world
        known = history.known(partition)
        if not known:
            return
        timestamp = world.timestamps[world.chance.choice(list(known.values()))]
        timestamp += world.chance.randrange(2)
        handler = partial(look_up, partition, timestamp)
        end, first, largest, log_start = await self.call(handler, 10.0, partition)
        log_start = max(log_start, history.start_asked(partition))
        times = {o: world.timestamps[value] for o, value in known.items() if o >= log_start}
        before = end if first is None else first[0]
        missed = [at for at, time in times.items() if at < before and time >= timestamp]
        if missed or (first is not None and first[1] < timestamp):
            world.violate(f"time {timestamp} found {first} missed {missed[:3]} {partition}")
        most = max((time for at, time in times.items() if at < end), default=-1)
        if most >= 0 and (largest is None or largest[1] < most):
            world.violate(f"largest timestamp {most} found {largest} {partition}")
        world.seen["times looked up"] += 1

    async def read_all(self, partition: Partition, *, follower: bool = False) -> None:
        """From the start to the end, from whoever leads; raises what goes on for a minute."""
        self.world.history.assign(self.name, partition, 0)
        until_s = self.world.clock.monotonic_s() + READ_ALL_S
        while True:
            try:
                if not await self.read_once(partition, follower=follower):
                    return
            except (LogstoreError, TimeoutError):
                if self.world.clock.monotonic_s() > until_s:
                    raise
                await self.world.clock.sleep_s(0.1)
