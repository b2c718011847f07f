"""Simulated connections keep the order of bytes, press back, and end as sockets do."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from logstore.testing.process_loop import Process, simulate
from logstore.testing.simulated_network import (
    SOCKET_BYTES,
    NetworkFaults,
    SimulatedNetwork,
    SimulatedTransport,
)

HERE = ("server", 9092)


class Peer(asyncio.Protocol):
    """Notes what it receives."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.events: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimulatedTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.events.append("eof")
        return True

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost" if exc is None else type(exc).__name__)


def meet(
    story: Callable[[Peer, Peer, Process], Awaitable[None]],
    faults: NetworkFaults | None = None,
) -> None:
    """Run `story` with a client, the server that accepted it, and the server's process."""

    async def main() -> None:
        network = SimulatedNetwork(random.Random(1), faults or NetworkFaults(), Counter())
        process, server = Process("server"), Peer()
        bound = network.bind(HERE, process)

        async def serve() -> None:
            bound.serve(lambda: server)

        await process.spawn(serve())
        _, client = await network.connect(Peer, HERE)
        await asyncio.sleep(1)
        assert isinstance(client, Peer)
        await story(client, server, process)

    simulate(main())


def test_bytes_arrive_in_order_however_they_are_cut() -> None:
    async def story(client: Peer, server: Peer, process: Process) -> None:
        for number in range(500):
            client.transport.write(b"%d " % number)
        await asyncio.sleep(10)
        assert bytes(server.received) == b"".join(b"%d " % number for number in range(500))

    meet(story, NetworkFaults(latency_max_s=0.1, in_pieces=0.9))


def test_a_peer_that_does_not_read_makes_the_other_wait() -> None:
    async def story(client: Peer, server: Peer, process: Process) -> None:
        client.transport.pause_reading()
        server.transport.set_write_buffer_limits(high=0)
        server.transport.write(bytes(3 * SOCKET_BYTES))
        await asyncio.sleep(10)
        assert server.events == ["pause"]
        assert len(server.transport.unsent) == 2 * SOCKET_BYTES
        client.transport.resume_reading()
        await asyncio.sleep(10)
        assert server.events == ["pause", "resume"]
        assert len(client.received) == 3 * SOCKET_BYTES

    meet(story)


def test_a_stopped_process_reads_later_and_a_killed_one_resets_its_connections() -> None:
    async def story(client: Peer, server: Peer, process: Process) -> None:
        process.stop_for(5)
        client.transport.write(b"late")
        await asyncio.sleep(1)
        assert not server.received
        await asyncio.sleep(5)
        assert server.received == b"late"
        process.kill()
        await asyncio.sleep(1)
        assert client.events == ["ConnectionResetError"]

    meet(story)


def test_half_a_connection_ends_and_the_other_goes_on() -> None:
    async def story(client: Peer, server: Peer, process: Process) -> None:
        client.transport.write(b"last")
        client.transport.write_eof()
        await asyncio.sleep(1)
        assert (bytes(server.received), server.events) == (b"last", ["eof"])
        server.transport.write(b"answer")
        server.transport.close()
        await asyncio.sleep(1)
        assert (bytes(client.received), client.events) == (b"answer", ["eof"])

    meet(story)


def test_nothing_listens_where_nothing_serves() -> None:
    async def main() -> None:
        network = SimulatedNetwork(random.Random(1), NetworkFaults(), Counter())
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Peer, HERE)

    simulate(main())
