"""A broker has another one read the feed over the connection that it keeps to it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from broker.cluster.peer_link import ANSWER_BYTES_MAX, PeerLink
from broker.cluster.peers import Peer, TcpPeers
from broker.network.authorizer import Operation
from logstore.ports.clock import SystemClock
from logstore.wire.framing.apis import API_VERSIONS_KEY
from tests.broker.network.test_authorizer import deny
from tests.broker.running import Running, running_broker

DEADLINE_S = 20.0


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[TcpPeers]:
    """Peers with a connection to broker 2, epoch 7, at `port`."""
    clock = SystemClock()
    peers = TcpPeers(clock, random.Random(0))
    peer = Peer(2, 7, "127.0.0.1", port)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(peers.run(lambda *_: None))
        peers.watch({2: peer})
        while peer not in peers.connected:
            await clock.sleep_s(0.01)
        yield peers
        running.cancel()


@asynccontextmanager
async def answering(answer: Callable[[bytes], bytes]) -> AsyncIterator[int]:
    """A port where each request is answered by the bytes that `answer` makes of it."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                if int.from_bytes(frame[:2], "big") != API_VERSIONS_KEY:  # which greets
                    writer.write(answer(frame))
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def test_a_broker_reads_the_feed_when_it_is_asked(running: Running) -> None:
    async def story() -> None:
        port = running.listener.public_address[1]
        async with connected(port) as peers:
            known = running.log.feed_version
            assert await peers.read_feed(2, 7, known) == known
            assert await peers.read_feed(2, 7, known + 1_000) == known, "it has no more"
            assert await peers.read_feed(2, 8, known) is None, "of another epoch"
            assert await peers.read_feed(3, 7, known) is None

    asyncio.run(story())


def test_a_connection_to_a_broker_asks_at_once_so_that_it_may_be_silent() -> None:
    with running_broker({"logstore.first.request.max.ms": "100"}) as running:

        async def story() -> None:
            async with connected(running.listener.public_address[1]) as peers:
                clients = running.broker.clients
                await asyncio.to_thread(running.wait_until, lambda: not len(clients._newcomers))
                assert peers.has_any
                assert clients.connections

        asyncio.run(story())


def test_only_who_may_act_as_a_broker_may_ask(running: Running) -> None:
    async def story() -> None:
        port = running.listener.public_address[1]
        async with connected(port) as peers:
            deny(running, Operation.CLUSTER_ACTION)
            assert await peers.read_feed(2, 7, 0) is None

    rule = running.authorizer.rule
    try:
        asyncio.run(story())
    finally:
        running.authorizer.rule = rule


@pytest.mark.parametrize(
    "strange",
    [
        b"",
        (ANSWER_BYTES_MAX + 1).to_bytes(4, "big"),
        (3).to_bytes(4, "big") + bytes(3),
        b"\xff" * 8,
    ],
    ids=["ends", "too large", "too small", "negative"],
)
def test_a_peer_that_answers_otherwise_is_no_answer(strange: bytes) -> None:
    async def story() -> None:
        closing = strange or b"\xff\xff\xff\xff"
        async with answering(lambda _: closing) as port, connected(port) as peers:
            assert await peers.read_feed(2, 7, 1) is None

    asyncio.run(story())


def test_a_process_is_back_when_it_answers_and_not_when_its_port_accepts(running: Running) -> None:
    """The kernel accepts connections for a process that is ending."""

    async def story() -> None:
        silent = asyncio.Event()

        async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await silent.wait()
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with server:
            for port, is_back in (
                (server.sockets[0].getsockname()[1], False),
                (running.listener.public_address[1], True),
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                link = PeerLink(reader, writer)
                async with asyncio.TaskGroup() as tasks:
                    reading = tasks.create_task(link.run())
                    pinging = tasks.create_task(link.ping())
                    done, _ = await asyncio.wait([pinging], timeout=5.0 if is_back else 0.05)
                    assert bool(done) == is_back
                    pinging.cancel()
                    reading.cancel()
                writer.close()
            silent.set()

    asyncio.run(story())
