"""Producers of the simulated world, which obey error codes as librdkafka and the Java client do.

An idempotent producer asks for its id, has up to five requests on their way to each leader, repeats
in order, with the same sequences, what was not acknowledged, and looks for the leader after any
error. One that gives batches up, because their time is over, goes on in a new epoch of its id: the
Java client raises it by itself, librdkafka asks InitProducerId. It may also try to go on without,
and get OUT_OF_ORDER_SEQUENCE_NUMBER. A plain producer may double what it repeats.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from logstore.records.batch import SEQUENCE_MAX
from logstore.records.encode import encode_batch, records_of
from logstore.records.record import Record
from logstore.testing.history import Partition, Sent
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.init_producer_id import InitProducerIdRequest
from logstore.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.simulation.kafka import MAIN, Client, Place, Wire, judge_code
from tests.simulation.world import World

PRODUCE, INIT_PRODUCER_ID = 0, 22
IN_FLIGHT_MAX = 5
PARTITIONS_MAX = 3
TIMEOUT_MS = 8_000
BY_ID_VERSION = 13
BY_NAME_VERSIONS = (3, 7, 9, 12)
GIVES_UP_S = (2.0, 30.0)
WRAPS_FROM = SEQUENCE_MAX - 40
PID_S = 5.0
BACK_OFF_FIRST_S, BACK_OFF_MAX_S = 0.1, 1.0

PRODUCER_ERRORS = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}


@dataclass(slots=True)
class Batch:
    sent: Sent
    records: list[Record]
    producer_id: int
    """That it was sent with first: another would have it stored twice."""
    epoch: int
    sequence: int
    began_s: float


@dataclass(slots=True)
class _Line:
    """What one partition gets from one producer, in order."""

    producer_id: int
    epoch: int
    sequence: int
    has_gap: bool = False
    """A batch was given up, and its sequence may be missing: the broker may say so."""
    is_known: bool = False
    """Whether a batch was acknowledged. A producer that wraps has sent many: its first goes alone,
    since a broker that does not know it takes the 0 after it for its beginning."""
    unacked: deque[Batch] = field(default_factory=deque)


class Producer(Client):
    def __init__(self, world: World, name: str, *, idempotent: bool = True) -> None:
        super().__init__(world)
        rng, odd = world.rng, world.plan.odd_clients
        self.name = name
        self.is_done = False
        self._is_idempotent = idempotent
        self._producer_id = -1
        self._epoch = 0
        self._is_java = rng.random() < 0.5
        self._gives_up_s = rng.uniform(*GIVES_UP_S) if rng.random() < odd else float("inf")
        self._minds_gaps = rng.random() < 0.5
        self._first_sequence = WRAPS_FROM if rng.random() < odd / 6 else 0
        self._acks = -1 if idempotent else rng.choice((1, 1, -1, 0))
        self._count = 0
        self._lines: dict[Partition, _Line] = {}

    async def run(self) -> None:
        rng = self.world.rng
        while not self.world.is_healed:
            await self.pause(self.world.plan.pause_s_max)
            if self.world.live_topics:
                await self._round(self._choose(rng.randint(1, PARTITIONS_MAX)))
        if self.world.live_topics:
            await self._round(self._choose(1))
        self.is_done = True

    def _choose(self, count: int) -> list[Partition]:
        rng = self.world.rng
        found: dict[Partition, None] = {}
        for _ in range(count):
            topic_id = rng.choice(list(self.world.live_topics))
            _, partitions = self.world.live_topics[topic_id]
            found[Partition(topic_id, rng.randrange(partitions))] = None
        return list(found)

    async def _round(self, partitions: list[Partition]) -> None:
        """Send a few batches to each and go on until all are acknowledged or given up."""
        rng = self.world.rng
        if self._is_idempotent and self._producer_id < 0:
            await self._ask_for_id()
        for partition in partitions:
            line = self._line(partition)
            count = rng.randint(1, IN_FLIGHT_MAX)
            if self._first_sequence and not line.is_known:
                count = 1
            for _ in range(count):
                line.unacked.append(self._new_batch(partition, line))
        is_stale, wait_s = False, BACK_OFF_FIRST_S
        while left := [p for p in partitions if self._lines[p].unacked]:
            await self._send_all(left, is_stale=is_stale)
            for partition in left:
                self._give_up(partition)
            is_stale = any(self._lines[p].unacked for p in left)
            if is_stale:
                await self.pause(2 * wait_s)
                wait_s = min(2 * wait_s, BACK_OFF_MAX_S)

    def _line(self, partition: Partition) -> _Line:
        if partition not in self._lines:
            self._lines[partition] = _Line(self._producer_id, self._epoch, self._first_sequence)
        return self._lines[partition]

    # Ids and epochs

    async def _ask_for_id(self, producer_id: int = -1, epoch: int = -1) -> None:
        request = InitProducerIdRequest(None, 60_000, producer_id, epoch)
        answer = None
        while answer is None or answer.error_code:
            wire = await self.any_wire()
            if wire is not None:
                answer = await self.ask(wire, INIT_PRODUCER_ID, 5, request, PID_S)
            if answer is None:
                await self.pause(0.3)
        if self._first_sequence:
            self.world.history.begin_anywhere(answer.producer_id)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self.world.seen["producer ids"] += 1

    async def _begin_epoch(self) -> None:
        """Go on in a new epoch, in which all sequences begin at 0."""
        self.world.seen["epochs bumped"] += 1
        if self._is_java and self._first_sequence == 0:
            self._epoch += 1
        else:
            self._first_sequence = 0
            await self._ask_for_id(self._producer_id, self._epoch)

    async def _restart_line(self, line: _Line) -> None:
        await self._begin_epoch()
        line.has_gap = False
        line.producer_id, line.epoch, line.sequence = self._producer_id, self._epoch, 0
        for batch in line.unacked:
            batch.producer_id, batch.epoch = line.producer_id, line.epoch
            batch.sequence = line.sequence
            line.sequence += len(batch.records)
        if not self._is_java:  # one id for all, so all begin again that have nothing on its way
            for other in self._lines.values():
                if other is not line and not other.unacked:
                    other.producer_id, other.epoch = self._producer_id, self._epoch
                    other.sequence, other.has_gap = 0, False

    def _give_up(self, partition: Partition) -> None:
        """What is not acknowledged in time never will be; it may lie in the log all the same."""
        line, now_s = self._lines[partition], self.world.clock.monotonic_s()
        is_deleted = self.world.history.is_deleted(partition.topic_id)
        is_late = bool(line.unacked) and now_s - line.unacked[0].began_s > self._gives_up_s
        if is_deleted or is_late:
            self.world.seen["batches given up"] += len(line.unacked)
            line.unacked.clear()
            line.has_gap = self._is_idempotent
            self.world.history.begin_anywhere(line.producer_id)

    # Requests

    async def _send_all(self, partitions: list[Partition], *, is_stale: bool) -> None:
        """Each leader gets its partitions, the nth batch of each in the nth request."""
        groups: dict[Wire, list[tuple[Partition, Place]]] = {}
        for partition in partitions:
            line = self._lines[partition]
            if line.has_gap and self._minds_gaps:
                await self._restart_line(line)
            found = await self.leader_of(partition, is_stale=is_stale)
            is_stale = False
            if found is not None:
                groups.setdefault(found[0], []).append((partition, found[1]))
        if self._acks == 0:
            self._send_unanswered(groups)
        elif groups:
            await asyncio.gather(*(self._send(wire, led) for wire, led in groups.items()))

    def _send_unanswered(self, groups: dict[Wire, list[tuple[Partition, Place]]]) -> None:
        for wire, led in groups.items():
            for version, _, request in self._requests(led):
                wire.tell(PRODUCE, version, request)
            for partition, _ in led:
                self.world.seen["sent without an answer"] += len(self._lines[partition].unacked)
                self._lines[partition].unacked.clear()

    async def _send(self, wire: Wire, led: list[tuple[Partition, Place]]) -> None:
        world = self.world
        sent = []
        for version, batches, request in self._requests(led):
            world.seen["batches sent"] += len(batches)
            sent.append((batches, wire.ask(PRODUCE, version, request)))
        if world.rng.random() < world.plan.odd_clients / 20:
            wire.half_close()
            world.seen["connections half closed"] += 1
        await asyncio.wait([one for _, one in sent], timeout=world.rng.uniform(1, 10))
        is_late = not all(answer.done() for _, answer in sent)
        if is_late:
            world.seen["request timed out"] += 1
            wire.close()
        for batches, answer in sent:
            if answer.done() and answer.result() is not None:
                await self._judge(answer.result(), batches)

    def _requests(
        self, led: list[tuple[Partition, Place]]
    ) -> list[tuple[int, dict[Partition, Batch], ProduceRequest]]:
        requests = []
        names = {p: self.world.live_topics.get(p.topic_id, ("", 0))[0] for p, _ in led}
        for number in range(IN_FLIGHT_MAX):
            batches = {
                partition: self._lines[partition].unacked[number]
                for partition, _ in led
                if number < len(self._lines[partition].unacked)
            }
            if not batches:
                break
            version = BY_ID_VERSION
            if all(names[partition] == MAIN for partition in batches):
                version = self.world.rng.choice((*BY_NAME_VERSIONS, BY_ID_VERSION))
            topics: dict[bytes, TopicProduceData] = {}
            for partition, batch in batches.items():
                if not self._is_idempotent:
                    self.world.history.try_again(batch.sent)
                topic = topics.setdefault(
                    partition.topic_id, TopicProduceData(names[partition], partition.topic_id, [])
                )
                data = PartitionProduceData(partition.number, self._encode(batch))
                topic.partition_data.append(data)
            request = ProduceRequest(None, self._acks, TIMEOUT_MS, list(topics.values()))
            requests.append((version, batches, request))
        return requests

    def _encode(self, batch: Batch) -> bytes:
        if not self._is_idempotent:
            return encode_batch(batch.records)
        return encode_batch(
            batch.records,
            producer_id=batch.producer_id,
            producer_epoch=batch.epoch,
            base_sequence=batch.sequence,
        )

    async def _judge(self, response: ProduceResponse, batches: dict[Partition, Batch]) -> None:
        by_name = {self.world.live_topics.get(p.topic_id, ("", 0))[0]: p.topic_id for p in batches}
        codes = set()
        for topic in response.responses:
            topic_id = topic.topic_id if any(topic.topic_id) else by_name.get(topic.name, b"")
            for one in topic.partition_responses:
                partition = Partition(topic_id, one.index)
                codes.add(one.error_code)
                if partition in batches:
                    await self._judge_one(response, one, partition, batches[partition])
        self.world.seen["produce refused in part"] += len(codes) > 1 and 0 in codes

    async def _judge_one(
        self,
        response: ProduceResponse,
        one: PartitionProduceResponse,
        partition: Partition,
        batch: Batch,
    ) -> None:
        line, code = self._lines[partition], ErrorCode(one.error_code)
        if code == ErrorCode.NONE:
            self.world.history.ack(batch.sent, one.base_offset)
            line.unacked.remove(batch)
            line.is_known = True
            return
        self.follow_hint(partition, response, one.current_leader)
        if code in PRODUCER_ERRORS:
            self.world.seen[f"produce: {code.name}"] += 1
            is_first = bool(line.unacked) and line.unacked[0] is batch
            if not line.has_gap and is_first and not self.world.plan.flips_bits:
                # It repeats in order whatever was not acknowledged: there is no gap.
                self.world.violate(f"{code.name} for {self.name} {partition} {batch.sequence}")
            if is_first:
                await self._restart_line(line)
            return
        if not self.world.history.is_deleted(partition.topic_id):
            judge_code(self.world, code, "produce")

    def _new_batch(self, partition: Partition, line: _Line) -> Batch:
        world, rng = self.world, self.world.rng
        count = rng.randint(1, 3)
        padding = b"." * world.plan.padding_bytes
        name = self.name.encode()
        values = tuple(b"%s-%d%s" % (name, self._count + n, padding) for n in range(count))
        self._count += count
        timestamp = world.clock.now_ms() + rng.randrange(-2_000, 2_000)
        world.timestamps.update(dict.fromkeys(values, timestamp))
        records = records_of([(None, value) for value in values], timestamp=timestamp)
        sequence = line.sequence
        line.sequence = (sequence + count) & SEQUENCE_MAX
        world.seen["sequences wrapped"] += line.sequence < sequence
        sent = world.history.send(
            partition,
            values,
            idempotent=self._is_idempotent,
            sender=self.name,
            timestamp_ms=timestamp,
        )
        return Batch(
            sent, records, line.producer_id, line.epoch, sequence, world.clock.monotonic_s()
        )


async def crowd_in(client: Client, partition: Partition, count: int) -> None:
    """Many producers that send one batch each: states grow, takes go in pieces."""
    world = client.world
    found = await client.leader_of(partition)
    if found is None:
        return
    first = world.rng.randrange(1 << 40)
    answers = []
    for number in range(count):
        value = b"crowd-%d" % (first + number)
        batch = encode_batch(
            records_of([(None, value)], timestamp=1),
            producer_id=first + number,
            producer_epoch=0,
            base_sequence=0,
        )
        sent = world.history.send(partition, (value,), idempotent=True)
        world.timestamps[value] = 1
        data = [PartitionProduceData(partition.number, batch)]
        topics = [TopicProduceData("", partition.topic_id, data)]
        request = ProduceRequest(None, -1, TIMEOUT_MS, topics)
        answers.append((sent, found[0].ask(PRODUCE, BY_ID_VERSION, request)))
    await asyncio.wait([answer for _, answer in answers], timeout=20.0)
    for sent, answer in answers:
        if answer.done() and answer.result() is not None:
            one = answer.result().responses[0].partition_responses[0]
            if not one.error_code:
                world.history.ack(sent, one.base_offset)
    if not all(answer.done() for _, answer in answers):
        found[0].close()
