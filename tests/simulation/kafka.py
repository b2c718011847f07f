"""A Kafka client of the simulated world: connections, metadata, requests in Kafka's own bytes.

It finds brokers by Metadata, keeps a connection to each, has several requests on its way, gives a
connection up when an answer takes too long, and looks for leaders again after any error: the parts
that librdkafka and the Java client have in common. Producers and consumers stand on it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from logstore.epoch.log import Log
from logstore.testing.history import Partition
from logstore.testing.simulated_network import Name, SimulatedTransport
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import (
    PRIVATE_APIS,
    Api,
    decode_response_header,
    encode_request_frame,
)
from logstore.wire.messages.metadata import MetadataRequest
from tools.full_wire import APIS

if TYPE_CHECKING:
    from tests.simulation.served import ServedBroker
    from tests.simulation.world import World

T = TypeVar("T")

METADATA = 3
CONNECT_S = 3.0
METADATA_S = 5.0
MAIN = "main"
"""A topic that is never deleted: requests that know it by name alone mean this one."""

RETRIABLE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
"""What clients meet with a look at the metadata and another attempt."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition is led, as Metadata said last."""

    leader: int
    leader_epoch: int


class Wire(asyncio.Protocol):
    """One connection: answers come in the order of the requests, or never."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._transport: SimulatedTransport | None = None
        self._pending: deque[tuple[int, Api, int, asyncio.Future[Any]]] = deque()
        self._received = bytearray()
        self._next_id = 0
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimulatedTransport)
        self._transport = transport

    @property
    def broker_epoch(self) -> int:
        """Of the broker that accepted it; 0 as long as none has."""
        assert self._transport is not None
        return self._world.epoch_behind(self._transport.peer.protocol)

    def ask(self, key: int, version: int, request: Any) -> "asyncio.Future[Any]":
        """The answer; None if the connection ends first."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.is_lost or self._transport is None:
            answer.set_result(None)
            return answer
        api, self._next_id = APIS.get(key) or PRIVATE_APIS[key], self._next_id + 1
        self._pending.append((self._next_id, api, version, answer))
        for buffer in encode_request_frame(self._next_id, api, version, "simulated", request):
            self._transport.write(buffer)
        return answer

    def tell(self, key: int, version: int, request: Any) -> None:
        """Send a request that has no answer."""
        if not self.is_lost and self._transport is not None:
            api, self._next_id = APIS[key], self._next_id + 1
            for buffer in encode_request_frame(self._next_id, api, version, "simulated", request):
                self._transport.write(buffer)

    def read_nothing_for(self, seconds: float) -> None:
        """As a slow consumer, whose socket fills up."""
        transport = self._transport
        if transport is not None and not self.is_lost:
            transport.pause_reading()
            asyncio.get_running_loop().call_later(seconds, transport.resume_reading)

    def half_close(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.write_eof()

    def close(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.abort()
        self._end()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= 4:
            size = int.from_bytes(received[:4], "big")
            if len(received) < 4 + size:
                return
            frame = memoryview(bytes(received[4 : 4 + size]))
            del received[: 4 + size]
            self._answered(frame)

    def _answered(self, frame: memoryview) -> None:
        if not self._pending:
            self._world.violate("a broker answered what was not asked")
            return
        wanted, api, version, answer = self._pending.popleft()
        correlation_id, at = decode_response_header(frame, api, version)
        if correlation_id != wanted:
            self._world.violate(f"answers out of order: got={correlation_id} wanted={wanted}")
        if not answer.done():
            answer.set_result(api.decode_response(version, frame, at))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        self.is_lost = True
        pending, self._pending = self._pending, deque()
        for _, _, _, answer in pending:
            if not answer.done():
                answer.set_result(None)


class Client:
    """Keeps what Metadata said, and its connections."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self._wires: dict[Name, Wire] = {}
        self._places: dict[Partition, Place] = {}
        self._addresses: dict[int, Name] = {}

    async def run(self) -> None:
        """Work until everything is healed."""

    # Brokers

    async def wire_to(self, address: Name) -> Wire | None:
        """The connection to a broker; None if there is none to be had."""
        wire = self._wires.get(address)
        if wire is not None and not wire.is_lost:
            return wire
        try:
            async with asyncio.timeout(CONNECT_S):
                _, made = await self.world.network.connect(lambda: Wire(self.world), address)
        except (OSError, TimeoutError):
            self.world.seen["connections refused"] += 1
            return None
        assert isinstance(made, Wire)
        self._wires[address] = made
        return made

    async def wire_to_broker(self, broker: int) -> Wire | None:
        address = self._addresses.get(broker)
        return None if address is None else await self.wire_to(address)

    async def any_wire(self) -> Wire | None:
        """To one of the bootstrap servers."""
        life = self.world.pick()
        return None if life is None else await self.wire_to(life.address)

    async def ask(
        self, wire: Wire, key: int, version: int, request: Any, timeout_s: float
    ) -> Any | None:
        """None: no answer. A client that waited in vain gives its connection up."""
        answer = wire.ask(key, version, request)
        await asyncio.wait([answer], timeout=timeout_s)
        if not answer.done():
            self.world.seen["request timed out"] += 1
            wire.close()
            return None
        return answer.result()

    async def call(
        self,
        handler: Callable[[Log], Awaitable[T]],
        timeout_s: float,
        life: "ServedBroker | None" = None,
    ) -> T:
        """Act inside a broker. Raises what it raised, or `TimeoutError`."""
        life = life or self.world.pick()
        while life is None:
            await self.world.clock.sleep_s(0.1)
            life = self.world.pick()
        async with asyncio.timeout(timeout_s):
            return await life.ask(handler)

    # Metadata

    async def refresh(self) -> bool:
        """Ask any broker for all topics; whether one answered."""
        wire = await self.any_wire()
        if wire is None:
            return False
        version = self.world.rng.choice((10, 12, 13))
        request = MetadataRequest(None, False)
        answer = await self.ask(wire, METADATA, version, request, METADATA_S)
        if answer is None:
            return False
        self._addresses = {one.node_id: (one.host, one.port) for one in answer.brokers}
        for topic in answer.topics:
            for one in topic.partitions:
                partition = Partition(topic.topic_id, one.partition_index)
                place = Place(one.leader_id, one.leader_epoch)
                known = self._places.get(partition)
                # As clients do: metadata of an older leadership is not believed (KIP-320).
                if known is None or place.leader_epoch >= known.leader_epoch:
                    self._places[partition] = place
        self.world.seen["metadata read"] += 1
        return True

    async def place_of(self, partition: Partition, *, is_stale: bool = False) -> Place | None:
        if is_stale or partition not in self._places:
            await self.refresh()
        place = self._places.get(partition)
        return None if place is None or place.leader < 0 else place

    async def leader_of(
        self, partition: Partition, *, is_stale: bool = False
    ) -> tuple[Wire, Place] | None:
        """A connection to its leader; None for now."""
        place = await self.place_of(partition, is_stale=is_stale)
        wire = None if place is None else await self.wire_to_broker(place.leader)
        if place is not None and wire is None:
            self._places.pop(partition, None)
        return None if place is None or wire is None else (wire, place)

    def follow_hint(self, partition: Partition, response: Any, hint: Any) -> None:
        """A leader that an answer named, and where it is reached (KIP-951)."""
        if hint is None or hint.leader_id < 0:
            return
        known = self._places.get(partition)
        if known is not None and hint.leader_epoch <= known.leader_epoch:
            return
        for one in response.node_endpoints or ():
            self._addresses[one.node_id] = (one.host, one.port)
        self._places[partition] = Place(hint.leader_id, hint.leader_epoch)
        self.world.seen["leader hints followed"] += 1

    def forget(self, partition: Partition) -> None:
        self._places.pop(partition, None)

    async def pause(self, seconds_max: float) -> None:
        await self.world.clock.sleep_s(self.world.rng.uniform(0, seconds_max))


def judge_code(world: "World", code: int, what: str) -> None:
    """An error code that no client should ever be given is a violation."""
    world.seen[f"{what}: {ErrorCode(code).name}"] += 1
    if code not in RETRIABLE and not world.plan.flips_bits:
        world.violate(f"{what} was answered {ErrorCode(code).name}")
