"""Consumers of the simulated world: Fetch and ListOffsets, from leaders and from near followers.

A consumer with a rack asks the leader, goes where that sends it (KIP-392), and comes back when the
follower cannot help. It judges every answer by what had been answered and acknowledged before it
asked (`logstore.testing.history`).
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

from logstore.errors import LogstoreError, Retryable
from logstore.testing.audit import records_of_batches
from logstore.testing.history import KnownBefore, Partition
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from logstore.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.simulation.kafka import MAIN, Client, Place, Wire, judge_code
from tests.simulation.world import RACKS, World

FETCH, LIST_OFFSETS = 1, 2
READ_BYTES_MAX = 20_000
READ_ALL_S = 90.0
"""Longer than a broker goes without a look at all rows: of one that landed late it hears then."""
FETCH_S = 12.0
LOOK_UP_S = 35.0
BEHIND_S = 1.5
"""Longer than a follower that reads its leader's chain needs for that."""
ACKED_NOTED_MAX = 100
BY_ID_VERSIONS = (13, 15, 16, 18)
BY_NAME_VERSIONS = (4, 9, 11, 12)
EPOCH_FROM = 9
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@dataclass(slots=True)
class _Fetched:
    """One partition of one answer, and whose answer it is."""

    data: PartitionData
    is_leader: bool
    broker_epoch: int
    response: Any


class NoAnswer(Retryable):
    """No broker, no answer, or one that sends the client elsewhere."""


class Reader(Client):
    """Reads partitions forward, and now and then again from their start."""

    def __init__(self, world: World, name: str = "reader") -> None:
        super().__init__(world)
        self.name = name
        self._near: dict[Partition, int] = {}
        """Followers that leaders named."""
        self._acked: dict[Partition, deque[tuple[float, int]]] = {}
        """When it looked, and what was acknowledged by then."""

    async def run(self) -> None:
        world, rng = self.world, self.world.rng
        while not world.is_healed:
            await self.pause(world.plan.pause_s_max / 2)
            if not world.live_topics:
                continue
            topic_id = rng.choice(list(world.live_topics))
            partition = Partition(topic_id, rng.randrange(world.live_topics[topic_id][1]))
            if rng.random() < 0.1:
                world.history.assign(self.name, partition, 0)
            follower = rng.random() < world.plan.follower_reads
            try:
                if rng.random() < 0.2:
                    await self.look_up(partition)
                else:
                    await self.read_once(partition, follower=follower)
            except LogstoreError:
                await self.refresh()

    # Fetching

    async def read_once(
        self, partition: Partition, *, follower: bool = False, wait_ms: int | None = None
    ) -> bool:
        """One fetch; whether it brought anything. Raises `NoAnswer`."""
        history, world = self.world.history, self.world
        offset = history.position(self.name, partition)
        asked = history.ask(partition)
        if not world.leases_hold:
            asked = history.ask_in_doubt(asked)
        got = await self._fetch(partition, offset, follower=follower, wait_ms=wait_ms)
        one, code = got.data, got.data.error_code
        if one.preferred_read_replica >= 0:
            self._near[partition] = one.preferred_read_replica
            world.seen["sent to a near replica"] += 1
            raise NoAnswer("asked to read elsewhere")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(partition, offset, got)
        elif code:
            self._near.pop(partition, None)
            self.follow_hint(partition, got.response, one.current_leader)
            if not history.is_deleted(partition.topic_id):
                self._judge_code(partition, offset, code)
            raise NoAnswer(f"refused: {ErrorCode(code).name}")
        self._judge_offsets(asked, got)
        records = [(r.offset, r.value) for r in records_of_batches(_bytes_of(one.records))]
        end = one.high_watermark if one.last_stable_offset < 0 else one.last_stable_offset
        if records and records[-1][0] >= max(end, one.high_watermark):
            world.violate(f"read above the high watermark offset={records[-1][0]}")
        # The first batch may begin below what was asked for.
        history.poll(self.name, partition, [one for one in records if one[0] >= offset])
        return history.position(self.name, partition) > offset

    async def _fetch(
        self, partition: Partition, offset: int, *, follower: bool, wait_ms: int | None
    ) -> _Fetched:
        world, rng = self.world, self.world.rng
        wire, place, is_leader = await self._whom_to_ask(partition, follower=follower)
        is_main = world.live_topics.get(partition.topic_id, ("", 0))[0] == MAIN
        version = rng.choice((*BY_NAME_VERSIONS, *BY_ID_VERSIONS) if is_main else BY_ID_VERSIONS)
        epoch = place.leader_epoch if version >= EPOCH_FROM else -1
        wanted = FetchPartition(partition.number, epoch, offset)
        wanted.partition_max_bytes = READ_BYTES_MAX
        request = FetchRequest(
            -1,
            rng.choice((0, 100, 500)) if wait_ms is None else wait_ms,
            1,
            READ_BYTES_MAX * 2,
            rng.randrange(2),
            topics=[FetchTopic(MAIN if is_main else "", partition.topic_id, [wanted])],
        )
        if follower:
            request.rack_id = rng.choice(RACKS)
        if rng.random() < world.plan.odd_clients / 10:
            wire.read_nothing_for(rng.uniform(0.1, 5.0))
            world.seen["slow consumers"] += 1
        self._note_acked(partition)
        answer = await self.ask(wire, FETCH, version, request, FETCH_S)
        if answer is None:
            self._near.pop(partition, None)
            raise NoAnswer("no answer")
        one = answer.responses[0].partitions[0]
        if not is_leader and not one.error_code:
            world.seen["read from a follower"] += bool(one.records)
            is_behind = one.high_watermark < self._acked_before(partition, BEHIND_S)
            world.seen["read from a follower that fell behind"] += is_behind
        # Without an epoch in the request a broker answers as whatever it is.
        is_leader = is_leader and version >= EPOCH_FROM
        return _Fetched(one, is_leader, wire.broker_epoch, answer)

    def _note_acked(self, partition: Partition) -> None:
        noted = self._acked.setdefault(partition, deque(maxlen=ACKED_NOTED_MAX))
        noted.append((self.world.clock.monotonic_s(), self.world.history.acked_end(partition)))

    def _acked_before(self, partition: Partition, seconds: float) -> int:
        """What was acknowledged so long ago, as far as it looked."""
        until_s = self.world.clock.monotonic_s() - seconds
        return max((end for at_s, end in self._acked[partition] if at_s <= until_s), default=0)

    async def _whom_to_ask(
        self, partition: Partition, *, follower: bool
    ) -> tuple[Wire, Place, bool]:
        place = await self.place_of(partition)
        if place is None:
            raise NoAnswer("no leader is known")
        near = self._near.get(partition) if follower else None
        wire = await self.wire_to_broker(place.leader if near is None else near)
        if wire is None:
            self._near.pop(partition, None)
            self.forget(partition)
            raise NoAnswer("no connection")
        return wire, place, near is None

    def _judge_code(self, partition: Partition, offset: int, code: int) -> None:
        """Below a log start that was asked for anything may be gone under a read."""
        if offset >= self.world.history.start_asked(partition):
            judge_code(self.world, code, "fetch")
        else:
            self.world.seen[f"trimmed under a read: {ErrorCode(code).name}"] += 1

    def _judge_offsets(self, asked: KnownBefore, got: _Fetched) -> None:
        """What the answer says of the log."""
        one, partition = got.data, asked.partition
        place = self._places.get(partition)
        leader_epoch = place.leader_epoch if got.is_leader and place is not None else None
        stable = one.last_stable_offset
        is_ordered = one.log_start_offset <= stable <= one.high_watermark
        # A follower may know of a later log start than of what is committed.
        if leader_epoch is not None and one.log_start_offset >= 0 and not is_ordered:
            offsets = (one.log_start_offset, stable, one.high_watermark)
            self.world.violate(f"offsets are out of order {partition} {offsets}")
        log_start = one.log_start_offset
        if log_start < 0:
            log_start = asked.starts.get(got.broker_epoch, 0)  # version 4 does not tell
        self.world.history.answer(
            asked,
            broker_epoch=got.broker_epoch,
            leader_epoch=leader_epoch,
            watermark=one.high_watermark,
            log_start=log_start,
        )

    async def _out_of_range(self, partition: Partition, offset: int, got: _Fetched) -> None:
        """As a consumer that resets to the earliest offset. Raises `NoAnswer`."""
        world = self.world
        log_start = got.data.log_start_offset
        if not got.is_leader:
            self._near.pop(partition, None)
            self.forget(partition)
            raise NoAnswer("a follower does not have it: ask the leader")
        if offset >= max(log_start, 0) and not world.history.is_deleted(partition.topic_id):
            world.violate(f"H14: log end went back {partition} offset={offset} start={log_start}")
        earliest = await self._list(partition, EARLIEST)
        if earliest.offset > offset:
            world.history.assign(self.name, partition, earliest.offset)
            world.seen["out of range"] += 1
        raise NoAnswer("begins again at the earliest offset")

    # Looking up

    async def _list(self, partition: Partition, timestamp: int) -> Any:
        found = await self.leader_of(partition)
        if found is None:
            raise NoAnswer("no leader is known")
        name = self.world.live_topics.get(partition.topic_id, ("", 0))[0]
        wanted = ListOffsetsPartition(partition.number, found[1].leader_epoch, timestamp)
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [wanted])])
        version = self.world.rng.choice((7, 8, 10))
        answer = await self.ask(found[0], LIST_OFFSETS, version, request, LOOK_UP_S)
        if answer is None:
            raise NoAnswer("no answer")
        one = answer.topics[0].partitions[0]
        is_known = self.world.live_topics.get(partition.topic_id, ("", 0))[0] == name
        if one.error_code or not is_known:
            if is_known:
                judge_code(self.world, one.error_code, "list offsets")
            self.forget(partition)
            raise NoAnswer(f"refused: {ErrorCode(one.error_code).name}")
        return one

    async def look_up(self, partition: Partition) -> None:
        """The first record at or after some time, the one with the largest, and both ends."""
        history, world = self.world.history, self.world
        known = history.known(partition)
        if not known or world.live_topics.get(partition.topic_id, ("", 0))[0] != MAIN:
            return
        rng, acked_end = world.rng, history.acked_end(partition)
        timestamp = world.timestamps[rng.choice(list(known.values()))] + rng.randrange(2)
        log_start = history.start_asked(partition)
        first = await self._list(partition, timestamp)
        log_start = max(log_start, history.start_asked(partition))
        edited = history.edited(partition)
        kept = {o: value for o, value in known.items() if o >= log_start and o not in edited}
        times = {offset: world.timestamps[value] for offset, value in kept.items()}
        before = first.offset if first.offset >= 0 else acked_end
        missed = [at for at, time in times.items() if at < before and time >= timestamp]
        if missed or (first.offset >= 0 and first.timestamp < timestamp):
            world.violate(f"time {timestamp} found {first} missed {missed[:3]} {partition}")
        largest = await self._list(partition, MAX_TIMESTAMP)
        # A reader without a broker may see more than a leader knows to be committed.
        log_start = history.start_asked(partition)
        there = set(range(log_start, acked_end)).difference(history.edited(partition))
        acked = [world.timestamps[value] for at, value in known.items() if at in there]
        most = max(acked, default=-1)
        if largest.timestamp < most:
            world.violate(f"largest timestamp {most} found {largest} {partition}")
        end = await self._list(partition, LATEST)
        if world.leases_hold:
            history.answer_fetch(partition, end.offset, acked_end, "latest")
        world.seen["times looked up"] += 1

    async def read_all(self, partition: Partition, *, follower: bool = False) -> None:
        """From the start to the end; raises what goes on for a minute."""
        self.world.history.assign(self.name, partition, 0)
        until_s = self.world.clock.monotonic_s() + READ_ALL_S
        while True:
            try:
                if not await self.read_once(partition, follower=follower, wait_ms=0):
                    return
            except LogstoreError:
                if self.world.clock.monotonic_s() > until_s:
                    raise
                await self.world.clock.sleep_s(0.1)
                if partition not in self._near:
                    await self.refresh()


def _bytes_of(records: Any) -> bytes:
    return b"" if records is None else bytes(records)
