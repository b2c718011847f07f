"""Producers and consumers that know topics by name alone: Produce and Fetch without topic ids.

The ledger judges each answer by what was settled when its request was sent and when the answer
came (`tests.simulation.name_ledger`).
"""

from logstore.records.encode import encode_batch, records_of
from logstore.testing.audit import records_of_batches
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from logstore.wire.messages.init_producer_id import InitProducerIdRequest
from logstore.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.clients import INIT_PRODUCER_ID, PID_S, PRODUCE, PRODUCER_ERRORS, TIMEOUT_MS
from tests.simulation.kafka import judge_code
from tests.simulation.name_client import NAMES, PAUSE_S_MAX, NamingClient
from tests.simulation.name_ledger import Ledger, Sender
from tests.simulation.readers import FETCH, FETCH_S, READ_BYTES_MAX
from tests.simulation.world import World

PRODUCE_VERSIONS = (3, 7, 9, 12)
PRODUCE_S = 15.0
FETCH_VERSIONS = (4, 9, 11, 12)
EPOCH_FROM = 9
GIVES_UP_S_MAX = 10.0


class NameProducer(NamingClient):
    """One request after the other. An idempotent producer goes on with its sequences in the next
    life, as it knows no better, and takes a new id once it gave a batch up."""

    def __init__(
        self, world: World, ledger: Ledger, client: str, *, is_idempotent: bool = False
    ) -> None:
        super().__init__(world, ledger, client)
        self._is_idempotent = is_idempotent
        self._gives_up_s = world.rng.uniform(1.0, GIVES_UP_S_MAX)
        self._producer_id = -1
        self._epoch = 0
        self._count = 0
        self._sequences: dict[tuple[str, int], int] = {}

    async def run(self) -> None:
        while not self.world.is_healed:
            await self.pause(PAUSE_S_MAX)
            name, number = self.choose()
            await self._send(name, number)
        for name in NAMES:
            while not await self._send(name, 0):
                await self.pause(1.0)
        self.is_done = True

    async def _send(self, name: str, number: int) -> bool:
        """Whether a batch was acknowledged: sent until it is, or its time is over."""
        world = self.world
        if self._is_idempotent and self._producer_id < 0 and not await self._ask_for_id():
            return False
        count = world.rng.randint(1, 2)
        values = [b"%s-%d" % (self.client.encode(), self._count + n) for n in range(count)]
        self._count += count
        sequence = self._sequences.get((name, number), 0)
        records = records_of([(None, value) for value in values], timestamp=world.clock.now_ms())
        batch = encode_batch(records)
        if self._is_idempotent:
            batch = encode_batch(
                records,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=sequence,
            )
        until_s = world.clock.monotonic_s() + self._gives_up_s
        while world.clock.monotonic_s() < until_s:
            code = await self._send_once(name, number, batch, values)
            if code == ErrorCode.NONE:
                self._sequences[name, number] = sequence + count
                return True
            if code in PRODUCER_ERRORS:
                break  # of a batch that was given up, or of another life
            self.forget_name(name)
            await self.pause(2 * PAUSE_S_MAX)
        world.seen["batches given up"] += 1
        self._producer_id, self._sequences = -1, {}
        return False

    async def _send_once(
        self, name: str, number: int, batch: bytes, values: list[bytes]
    ) -> ErrorCode | None:
        """The outcome; None: there is none."""
        world, ledger = self.world, self._ledger
        found = await self.leader(name, number)
        if found is None:
            return None
        topics = [TopicProduceData(name, partition_data=[PartitionProduceData(number, batch)])]
        request = ProduceRequest(None, -1, TIMEOUT_MS, topics)
        version = world.rng.choice(PRODUCE_VERSIONS)
        sent_in = ledger.settled(name)
        world.seen["batches sent"] += 1
        answer = await self.ask(found[0], PRODUCE, version, request, PRODUCE_S)
        if answer is None:
            return None
        one = answer.responses[0].partition_responses[0]
        code = ErrorCode(one.error_code)
        if code == ErrorCode.NONE:
            sender = Sender(self.client, self._is_idempotent)
            is_claimed = ledger.ack(sent_in, name, number, one.base_offset, values, sender)
            world.seen["acknowledged by name"] += is_claimed
            world.trace(
                f"{self.client} acknowledged {values} in {sent_in} claimed={is_claimed} "
                f"by {found[1].leader} partition={number} offset={one.base_offset}"
            )
        elif code in PRODUCER_ERRORS:
            world.seen[f"produce: {code.name}"] += 1
        else:
            judge_code(world, code, "produce")
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and number == 0:
                self.judge_shown(sent_in, name, found[0], None, "Produce")
        return code

    async def _ask_for_id(self) -> bool:
        wire = await self.any_wire()
        request = InitProducerIdRequest(None, 60_000, -1, -1)
        answer = None
        if wire is not None:
            answer = await self.ask(wire, INIT_PRODUCER_ID, 4, request, PID_S)
        if answer is None or answer.error_code:
            await self.pause(0.3)
            return False
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        return True


class NameReader(NamingClient):
    """Fetches by name, on from where it was in whatever life it was, or from the start."""

    def __init__(self, world: World, ledger: Ledger, client: str) -> None:
        super().__init__(world, ledger, client)
        self._positions: dict[tuple[str, int], int] = {}

    async def run(self) -> None:
        rng = self.world.rng
        while not self.world.is_healed:
            await self.pause(PAUSE_S_MAX)
            name, number = self.choose()
            offset = self._positions.get((name, number), 0) if rng.random() < 0.5 else 0
            got = await self.fetch(name, number, offset, rng.choice((0, 100, 500)))
            if got is None:
                self._positions.pop((name, number), None)
            elif got:
                self._positions[name, number] = got[-1][0] + 1
        self.is_done = True

    async def fetch(
        self, name: str, number: int, offset: int, wait_ms: int
    ) -> list[tuple[int, bytes]] | None:
        """Records from `offset` on; None: refused, or no answer."""
        world, ledger = self.world, self._ledger
        found = await self.leader(name, number)
        if found is None:
            return None
        version = world.rng.choice(FETCH_VERSIONS)
        epoch = found[1].leader_epoch if version >= EPOCH_FROM else -1
        wanted = FetchPartition(number, epoch, offset, partition_max_bytes=READ_BYTES_MAX)
        topics = [FetchTopic(name, partitions=[wanted])]
        request = FetchRequest(-1, wait_ms, 1, READ_BYTES_MAX, topics=topics)
        sent_in = ledger.settled(name)
        answer = await self.ask(found[0], FETCH, version, request, FETCH_S)
        one = None if answer is None else answer.responses[0].partitions[0]
        if one is None or one.error_code:
            self.forget_name(name)
            if one is not None and one.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                judge_code(world, one.error_code, "fetch")
                if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and number == 0:
                    self.judge_shown(sent_in, name, found[0], None, "Fetch")
            return None
        data = b"" if one.records is None else bytes(one.records)
        records = [(r.offset, r.value) for r in records_of_batches(data)]
        world.seen["fetched by name"] += bool(records) and sent_in is not None
        if records:
            world.trace(
                f"{self.client} fetched from {found[1].leader} in {sent_in} partition={number} "
                f"{records[0]} to {records[-1]}"
            )
        ledger.fetch(sent_in, number, records)
        return [one for one in records if one[0] >= offset]

    async def read_whole(self, name: str, number: int, until_s: float) -> dict[int, bytes] | None:
        """By offset; None: not in time."""
        read: dict[int, bytes] = {}
        offset = 0
        while self.world.clock.monotonic_s() < until_s:
            got = await self.fetch(name, number, offset, 0)
            if got == []:
                return read
            if got is None:
                await self.pause(2 * PAUSE_S_MAX)
            else:
                read.update(got)
                offset = got[-1][0] + 1
        return None
