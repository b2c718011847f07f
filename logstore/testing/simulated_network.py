"""TCP on the virtual loop: connections that are slow, cut, silent, half closed or refused.

Bytes arrive in order, in pieces, after a while. A transport behaves as asyncio's does: it pauses
its protocol while the socket takes no more, and the socket takes no more while the other side does
not read. A process that is stopped reads nothing, its kernel still accepts and buffers; one that
was killed resets its connections, since its machine lives on. `NetworkFaults` says what else goes
wrong; every choice comes from one `Random`.

    process (steps)                     no process (the network)                 process (steps)
    protocol → write → unsent ──────→ in flight, at most SOCKET_BYTES ──────→ arrived → protocol
"""

import asyncio
import random
import socket
from collections import Counter, deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from logstore.testing.process_loop import PROCESS, Process, ProcessLoop, charge_bytes

SOCKET_BYTES = 64 * 1024
"""Bytes that fit between two processes: the buffers of both sockets."""
READ_BYTES_MAX = 256 * 1024
HIGH_WATER_BYTES = 64 * 1024
APART_S = 1e-7

Name = tuple[str, int]
Factory = Callable[[], asyncio.BaseProtocol]


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """Shares of connections, drawn when they are made."""

    reset: float = 0.0
    """Both sides see the connection reset."""
    silent: float = 0.0
    """Nothing arrives any more, and neither side notices."""
    lives_s_max: float = 20.0
    """When it happens, at the latest."""
    latency_max_s: float = 0.001
    in_pieces: float = 0.2
    """Share of reads that bring only a part of what has arrived."""


class SimulatedNetwork:
    """All connections of one world. `seen` counts what happened."""

    def __init__(self, rng: random.Random, faults: NetworkFaults, seen: Counter[str]) -> None:
        self.faults = faults
        self.rng = rng
        self.seen = seen
        self._bound: dict[Name, SimulatedSocket] = {}
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        self.loop = loop
        loop.network = self

    def bind(self, name: Name, process: Process) -> "SimulatedSocket":
        """A socket of `process`; it is gone when the process is."""
        bound = self._bound[name] = SimulatedSocket(self, name)
        process.on_death(bound.close)
        return bound

    async def connect(
        self, factory: Factory, name: Name
    ) -> tuple["SimulatedTransport", asyncio.BaseProtocol]:
        """Raises `ConnectionRefusedError` if no process listens."""
        await asyncio.sleep(self.latency_s())
        bound = self._bound.get(name)
        if bound is None or not bound.is_listening:
            await asyncio.sleep(self.latency_s())
            raise ConnectionRefusedError(f"refused: address={name[0]}:{name[1]}")
        here = ("client", self.rng.randrange(1024, 1 << 16))
        process = PROCESS.get(None)
        mine = SimulatedTransport(self, process, here, name)
        theirs = SimulatedTransport(self, None, name, here)
        mine.peer, theirs.peer = theirs, mine
        self._draw_fault(mine)
        protocol = factory()
        mine.begin(protocol)
        await asyncio.sleep(self.latency_s())
        bound.accept(theirs)
        return mine, protocol

    def addresses_of(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """As `getaddrinfo` answers."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    def latency_s(self) -> float:
        return self.rng.random() * self.faults.latency_max_s

    def _draw_fault(self, transport: "SimulatedTransport") -> None:
        drawn, faults = self.rng.random(), self.faults
        if drawn >= faults.reset + faults.silent:
            return
        after_s = self.rng.random() * faults.lives_s_max
        act = transport.reset_both if drawn < faults.reset else transport.silence
        self.loop.call_later(after_s, act, context=Context())


class SimulatedSocket:
    """A bound socket: it listens from the first server on it until it is closed."""

    def __init__(self, network: SimulatedNetwork, name: Name) -> None:
        self.name = name
        self.is_listening = False
        self._is_closed = False
        self._network = network
        self._server: SimulatedServer | None = None
        self._backlog: deque[SimulatedTransport] = deque()

    def setsockopt(self, *_: int) -> None:
        """Has no delay to switch off."""

    def dup(self) -> "SimulatedSocket":
        return self

    def serve(self, factory: Factory) -> "SimulatedServer":
        """Accept connections as the running process; what waits in the backlog first."""
        server = self._server = SimulatedServer(self, factory, PROCESS.get())
        self.is_listening = True
        while self._backlog:
            server.accept(self._backlog.popleft())
        return server

    def accept(self, transport: "SimulatedTransport") -> None:
        if self._is_closed:
            transport.peer.reset()
        elif self._server is not None:
            self._server.accept(transport)
        else:
            self._backlog.append(transport)

    def left(self, server: "SimulatedServer") -> None:
        if self._server is server:
            self._server = None

    def close(self) -> None:
        self.is_listening = False
        self._is_closed = True
        self._server = None
        while self._backlog:
            self._backlog.popleft().peer.reset()


class SimulatedServer:
    """What `create_server` returns, as far as a broker uses it."""

    def __init__(self, bound: SimulatedSocket, factory: Factory, process: Process) -> None:
        self._bound = bound
        self._factory = factory
        self._process = process

    def accept(self, transport: "SimulatedTransport") -> None:
        transport.belong_to(self._process)
        transport.begin_in_step(self._factory)

    def close(self) -> None:
        self._bound.left(self)


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    peer: "SimulatedTransport"

    def __init__(
        self, network: SimulatedNetwork, process: Process | None, here: Name, there: Name
    ) -> None:
        super().__init__({"sockname": here, "peername": there})
        self._network = network
        self._loop = network.loop
        self._context = Context()
        self.protocol: asyncio.BaseProtocol | None = None
        self.is_lost = False
        self.unsent = bytearray()
        """Bytes written that the socket does not accept yet."""
        self._arrived = bytearray()
        self._in_flight = 0
        self._last_arrival_s = 0.0
        self._high = self._low = HIGH_WATER_BYTES
        self._is_reading = True
        self._read_is_due = False
        self._write_is_due = False
        self._has_paused = False
        self._is_closing = False
        self._is_silent = False
        self._has_sent_eof = False
        self._eof_arrived = False
        self._eof_delivered = False
        if process is not None:
            self.belong_to(process)

    def belong_to(self, process: Process) -> None:
        self._context = process.context()
        process.on_death(self._die)

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol
        protocol.connection_made(self)

    def begin_in_step(self, factory: Factory) -> None:
        def accepted() -> None:
            if not self.is_lost:
                self.begin(factory())
                self._want_read()

        self._step(accepted)

    def _step(self, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_soon(callback, *args, context=self._context)

    # What protocols call

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_lost or self._is_closing or self._has_sent_eof:
            return
        charge_bytes(len(data))
        self.unsent += data
        self._push()
        if len(self.unsent) > self._high and not self._has_paused:
            self._has_paused = True
            assert isinstance(self.protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            self.protocol.pause_writing()

    def write_eof(self) -> None:
        """Half close: the other side reads an end, this one goes on reading."""
        self._has_sent_eof = True
        self._send(self.peer.eof_arrives)

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._want_read()

    def close(self) -> None:
        """Once all written bytes have left."""
        if not self._is_closing:
            self._is_closing = True
            self._close_if_sent()

    def abort(self) -> None:
        self._is_closing = True
        self.unsent.clear()
        self._send(self.peer.reset, in_order=False)
        self._step(self._lose, None)

    # Sending

    def _push(self) -> None:
        count = min(SOCKET_BYTES - self._in_flight, len(self.unsent))
        if count > 0:
            data = bytes(self.unsent[:count])
            del self.unsent[:count]
            self._in_flight += count
            self._send(self.peer.arrives, data)

    def _send(self, what: Callable[..., object], *args: object, in_order: bool = True) -> None:
        if self._is_silent:
            return
        at_s = self._loop.time() + self._network.latency_s()
        if in_order:
            # Timers that are due at one time fire in any order.
            at_s = self._last_arrival_s = max(at_s, self._last_arrival_s + APART_S)
        self._loop.call_at(at_s, what, *args, context=Context())

    def taken(self, count: int) -> None:
        """The other side read so many of our bytes: there is room for more."""
        self._in_flight -= count
        is_wanted = self.unsent or self._has_paused or self._is_closing
        if is_wanted and not self._write_is_due and not self.is_lost:
            self._write_is_due = True
            self._step(self._write_on)

    def _write_on(self) -> None:
        self._write_is_due = False
        if self.is_lost:
            return
        self._push()
        if self._has_paused and len(self.unsent) <= self._low:
            self._has_paused = False
            assert isinstance(self.protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            self.protocol.resume_writing()
        self._close_if_sent()

    def _close_if_sent(self) -> None:
        if self._is_closing and not self.unsent and not self.is_lost:
            self._send(self.peer.eof_arrives)
            self._step(self._lose, None)

    # Receiving

    def arrives(self, data: bytes) -> None:
        if self.is_lost:
            self.peer.reset()
        else:
            self._arrived += data
            self._want_read()

    def eof_arrives(self) -> None:
        self._eof_arrived = True
        self._want_read()

    def _want_read(self) -> None:
        is_some = self._arrived or (self._eof_arrived and not self._eof_delivered)
        if is_some and self.is_reading() and not self._read_is_due and self.protocol is not None:
            self._read_is_due = True
            self._step(self._read)

    def _read(self) -> None:
        self._read_is_due = False
        if self.is_lost or not self.is_reading():
            return
        if self._arrived:
            self._give(self.protocol)
        elif self._eof_arrived and not self._eof_delivered:
            self._eof_delivered = True
            assert isinstance(self.protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            if not self.protocol.eof_received():
                self.close()
        self._want_read()

    def _give(self, protocol: asyncio.BaseProtocol | None) -> None:
        count = min(len(self._arrived), READ_BYTES_MAX)
        if self._network.rng.random() < self._network.faults.in_pieces:
            count = self._network.rng.randint(1, count)
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(-1))
            count = min(count, len(buffer))
            data = bytes(self._arrived[:count])
            buffer[:count] = data
        else:
            data = bytes(self._arrived[:count])
        del self._arrived[:count]
        charge_bytes(count)
        self.peer.taken(count)
        if isinstance(protocol, asyncio.BufferedProtocol):
            protocol.buffer_updated(count)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)

    # Ending

    def reset(self) -> None:
        """The other side is gone."""
        if not self.is_lost and not self._is_silent:
            self._step(self._lose, ConnectionResetError("connection reset by peer"))

    def reset_both(self) -> None:
        if not self.is_lost:
            self._network.seen["connections reset"] += 1
            self.reset()
            self.peer.reset()

    def silence(self) -> None:
        if not self.is_lost:
            self._network.seen["connections silent"] += 1
            self._is_silent = self.peer._is_silent = True

    def _lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = self._is_closing = True
            if self.protocol is not None:
                self.protocol.connection_lost(error)

    def _die(self) -> None:
        """Our process is gone, its machine is not."""
        if not self.is_lost:
            self.is_lost = True
            self._send(self.peer.reset, in_order=False)
