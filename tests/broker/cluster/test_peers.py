"""Connections between brokers: a closed port tells of a death, anything else tells nothing."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from broker.cluster.peers import SHORT_S, Peer, TcpPeers
from logstore.ports.clock import SystemClock

DEADLINE_S = 20.0
EPOCH = 7


class Listening:
    """A port that accepts and says nothing; `connections` are those it has accepted."""

    def __init__(self) -> None:
        self.connections: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self.closed: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self.received: list[bytes] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.put_nowait(writer)
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                self.received.append(data)
        self.closed.put_nowait(writer)
        writer.close()

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    def peer(self, broker: int = 2) -> Peer:
        return Peer(broker, EPOCH, "127.0.0.1", self.port)


class HastyClock(SystemClock):
    """Waits for nothing, but counts how often it was asked to, and how long that would be."""

    def __init__(self) -> None:
        self.sleeps: asyncio.Queue[float] = asyncio.Queue()
        self._slept_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._slept_s

    async def sleep_s(self, seconds: float) -> None:
        self.sleeps.put_nowait(seconds)
        self._slept_s += seconds
        await super().sleep_s(0)


class Watching:
    def __init__(self) -> None:
        self.clock = HastyClock()
        self.peers = TcpPeers(self.clock, random.Random(0))
        self.gone: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    async def run(self) -> None:
        await self.peers.run(lambda *life: self.gone.put_nowait(life))


class _Over(Exception): ...


@asynccontextmanager
async def watching() -> AsyncIterator[Watching]:
    made = Watching()
    try:
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(made.run())
            yield made
            raise _Over
    except* _Over:
        pass


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_a_process_whose_port_refuses_is_reported_as_gone() -> None:
    async def story() -> None:
        there = Listening()
        await there.open()
        async with watching() as watch:
            watch.peers.watch({2: there.peer()})
            connection = await there.connections.get()
            there.close()
            connection.close()

            assert await watch.gone.get() == (2, EPOCH)

    play(story())


def test_a_connection_that_ends_while_the_port_accepts_tells_nothing() -> None:
    async def story() -> None:
        there = Listening()
        await there.open()
        async with watching() as watch:
            watch.peers.watch({2: there.peer()})
            for _ in range(5):
                (await there.connections.get()).close()
            await there.connections.get()

            assert watch.gone.empty()
        there.close()

    play(story())


def test_a_look_notices_a_connection_that_ended_in_this_turn_of_the_loop() -> None:
    """And tells of it once: the task of that connection learns it later."""

    async def story() -> None:
        there, lost = Listening(), list[int]()
        await there.open()
        async with watching() as watch:
            watch.peers.on_lost = lost.append
            watch.peers.watch({2: there.peer()})
            connection = await there.connections.get()
            while not watch.peers.connected:
                await SystemClock().sleep_s(0)
            (link,) = watch.peers._links.values()
            await watch.clock.sleep_s(SHORT_S)
            watch.peers.look()
            assert lost == []

            connection.close()
            while not link.has_ended:
                await SystemClock().sleep_s(0)
            watch.peers.look()
            assert lost == [2]
            await there.connections.get()
            assert lost == [2]
        there.close()

    play(story())


def test_a_question_waits_for_the_end_of_the_connection_that_it_was_sent_on() -> None:
    """So what is known of leaders then is of a moment after the question."""

    async def story() -> None:
        there, lost = Listening(), list[int]()
        await there.open()
        async with watching() as watch:
            watch.peers.on_lost = lost.append
            watch.peers.watch({2: there.peer()})
            connection = await there.connections.get()
            while not watch.peers.has_any:
                await SystemClock().sleep_s(0)
            await watch.clock.sleep_s(SHORT_S)
            async with asyncio.TaskGroup() as tasks:
                asking = tasks.create_task(watch.peers.confirm())
                while not there.received:
                    await SystemClock().sleep_s(0)
                assert not asking.done()
                connection.close()

            watch.peers.look()
            assert lost == [2]
        there.close()

    play(story())


def test_a_broker_that_hangs_holds_up_one_question() -> None:
    async def story() -> None:
        there = Listening()
        await there.open()
        async with watching() as watch:
            watch.peers.watch({2: there.peer()})
            await there.connections.get()
            while not watch.peers.has_any:
                await SystemClock().sleep_s(0)
            for _ in range(3):
                await watch.peers.confirm()

            assert len(there.received) == 1
        there.close()

    play(story())


def test_a_broker_that_is_not_where_it_says_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and never listens
            async with watching() as watch:
                port = taken.getsockname()[1]
                watch.peers.watch({2: Peer(2, EPOCH, "127.0.0.1", port)})
                for _ in range(40):
                    await watch.clock.sleeps.get()
                lines = [record.message for record in caplog.records]

        assert len(lines) == 1
        assert f"broker=2 address=127.0.0.1:{port}" in lines[0]
        assert "--advertise" in lines[0]

    play(story())


def test_a_port_that_never_accepted_tells_nothing() -> None:
    async def story() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and never listens
            async with watching() as watch:
                port = taken.getsockname()[1]
                watch.peers.watch({2: Peer(2, EPOCH, "127.0.0.1", port)})
                waits = [await watch.clock.sleeps.get() for _ in range(12)]

                assert watch.gone.empty()
                assert all(0 < wait_s <= 2.0 for wait_s in waits)
                assert waits[-1] >= 1.0

    play(story())


@pytest.mark.parametrize("address", [("no host has..this name", 9092), ("127.0.0.1", 99_999)])
def test_an_address_that_makes_no_sense_tells_nothing(address: tuple[str, int]) -> None:
    async def story() -> None:
        async with watching() as watch:
            watch.peers.watch({2: Peer(2, EPOCH, *address)})
            await watch.clock.sleeps.get()

            assert watch.gone.empty()

    play(story())


def test_who_is_watched_no_more_is_let_go() -> None:
    async def story() -> None:
        there, other = Listening(), Listening()
        await there.open()
        await other.open()
        async with watching() as watch:
            watch.peers.watch({2: there.peer(2), 3: other.peer(3)})
            connection = await there.connections.get()
            kept = await other.connections.get()
            watch.peers.watch({3: other.peer(3)})

            assert await there.closed.get() is connection
            assert other.closed.empty()
            kept.close()
        there.close()
        other.close()

    play(story())


def test_a_new_life_of_a_broker_gets_a_new_connection() -> None:
    async def story() -> None:
        there = Listening()
        await there.open()
        async with watching() as watch:
            watch.peers.watch({2: there.peer()})
            await there.connections.get()
            watch.peers.watch({2: Peer(2, EPOCH + 1, "127.0.0.1", there.port)})
            connection = await there.connections.get()
            there.close()
            connection.close()

            assert await watch.gone.get() == (2, EPOCH + 1)

    play(story())
