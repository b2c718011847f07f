"""Early notice of a broker's death: a connection to it that ends, and a port that refuses the next.

These connections carry no data, but for short requests of brokers to each other (`peer_link`).
While a process lives its port accepts; one that hangs, or a
network that swallows packets, refuses nothing, so that is left to the lease. A port that refuses
right from the start tells of a wrong address, not of a death.
"""

import asyncio
import logging
import math
import random
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from broker.cluster.peer_link import PeerLink, log_in_to_peer
from logstore.errors import Invalid
from logstore.ports.clock import Clock
from logstore.wire.framing.login import ClientLogin
from logstore.wire.read_feed import READ_FEED_KEY, ReadFeedRequest

PEERS_MAX = 1000
CONNECT_S = 2.0
AGAIN_FIRST_S, AGAIN_MAX_S = 0.01, 2.0
CONFIRM_S = 0.05
"""For the answers of all brokers to one question. One that has not answered yet is not asked again:
a broker that hangs holds up one question in `CONNECT_S`."""
SHORT_S = 5.0
"""A connection that ends sooner is made again after a pause that grows, else at once."""
REPORT_AFTER_S = 5.0
"""A broker that was not reached once in this time is logged, once."""

logger = logging.getLogger(__name__)

OnGone = Callable[[int, int], None]
"""Broker and epoch of a process that seems to be gone; may be called again and again."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One life of a broker, and where it listens."""

    broker: int
    epoch: int
    host: str
    port: int


class Peers(Protocol):
    listener: str
    """By which brokers reach each other; empty: the first of each."""

    def watch(self, peers: Mapping[int, Peer]) -> None:
        """Watch these, and no others any more."""
        ...

    async def run(self, on_gone: OnGone) -> None:
        """Until cancelled."""
        ...


class NoPeers:
    """Watches no broker: leases alone decide which brokers are dead."""

    listener = ""

    def watch(self, peers: Mapping[int, Peer]) -> None: ...

    async def run(self, on_gone: OnGone) -> None: ...


def _plain() -> None:
    return None


class TcpPeers:
    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        login: ClientLogin | None = None,
        *,
        listener: str = "",
        context: Callable[[], ssl.SSLContext | None] = _plain,
    ) -> None:
        """`login` is that of a broker, `context` that of TLS, where their listeners ask for it."""
        self.listener = listener
        self._clock = clock
        self._login = login
        self._context = context
        self._rng = rng
        self._links: dict[Peer, PeerLink] = {}
        self.on_lost: Callable[[int], None] = _ignore
        """Called when a connection that held for a while has ended: its broker may be dead."""
        self.on_back: Callable[[int], None] = _ignore
        """Called when a broker whose connection had ended has answered on another one."""
        self._wanted: dict[int, Peer] = {}
        self._changed = asyncio.Event()
        self._unconfirmed: list[asyncio.Future[None]] = []
        self._is_to_confirm = asyncio.Event()
        self._asked: set[PeerLink] = set()

    def look(self) -> None:
        """Call `on_lost` for connections that have ended and whose tasks do not know it yet.

        A process that dies ends those of its clients at the same moment: what they ask is read in
        the same turn of the loop, before any task runs.
        """
        for peer, link in tuple(self._links.items()):
            if link.has_ended and self._wanted.get(peer.broker) == peer:
                del self._links[peer]
                if self._has_held(link):
                    self.on_lost(peer.broker)

    @property
    def has_any(self) -> bool:
        """Whether there is a connection to another broker."""
        return bool(self._links)

    async def confirm(self) -> None:
        """Return when each connected broker has answered a question that was asked from now on, or
        its connection has ended; soon after `CONFIRM_S` at the latest.

        A process that dies ends its connections one after the other, in milliseconds where the
        machine is busy: a client that has lost it may ask before `look` can see the end of ours.
        """
        if self._links:
            waiter = asyncio.get_running_loop().create_future()
            self._unconfirmed.append(waiter)
            self._is_to_confirm.set()
            await asyncio.wait([waiter], timeout=2 * CONFIRM_S)

    @property
    def watched_count(self) -> int:
        return len(self._wanted)

    @property
    def connected(self) -> Collection[Peer]:
        return self._links.keys()

    async def read_feed(self, broker: int, epoch: int, version: int) -> int | None:
        """Have a broker read the change feed up to `version`. Returns the version that it knows
        then; None where there is no connection to that epoch, or it refuses.
        """
        peer = self._wanted.get(broker)
        link = None if peer is None or peer.epoch != epoch else self._links.get(peer)
        if link is None:
            return None
        try:
            answer = await link.call(READ_FEED_KEY, ReadFeedRequest(version))
        except OSError:
            return None
        return None if answer.error_code else int(answer.version)

    def watch(self, peers: Mapping[int, Peer]) -> None:
        wanted = dict(sorted(peers.items())[:PEERS_MAX])
        if wanted != self._wanted:
            self._wanted = wanted
            self._changed.set()

    async def run(self, on_gone: OnGone) -> None:
        watched: dict[int, tuple[Peer, asyncio.Task[None]]] = {}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._confirm_again_and_again(tasks))
            while True:
                for broker, (peer, task) in list(watched.items()):
                    if self._wanted.get(broker) != peer:
                        task.cancel()
                        del watched[broker]
                for broker, peer in self._wanted.items():
                    if broker not in watched:
                        watched[broker] = peer, tasks.create_task(self._keep(peer, on_gone))
                await self._changed.wait()
                self._changed.clear()

    async def _confirm_again_and_again(self, tasks: asyncio.TaskGroup) -> None:
        """One round of questions at a time, for all that waited for it when it began."""
        while True:
            await self._is_to_confirm.wait()
            self._is_to_confirm.clear()
            waiters, self._unconfirmed = self._unconfirmed, []
            links = [link for link in self._links.values() if link not in self._asked]
            if links:
                asked = [tasks.create_task(self._ask(link)) for link in links]
                await asyncio.wait(asked, timeout=CONFIRM_S)
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def _ask(self, link: PeerLink) -> bool:
        self._asked.add(link)
        try:
            return await _answers(link)
        finally:
            self._asked.discard(link)

    def _has_held(self, link: PeerLink) -> bool:
        return self._clock.monotonic_s() - link.began_s >= SHORT_S

    async def _greet(self, peer: Peer, link: PeerLink, was_reached: bool) -> None:
        """Ask once: a connection that has sent no request is closed after seconds."""
        if await self._ask(link) and was_reached:
            self.on_back(peer.broker)

    async def _connect(self, peer: Peer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises as the function of this name."""
        reader, writer = await _connect(peer, self._context())
        if self._login is not None:
            try:
                async with asyncio.timeout(CONNECT_S):
                    nonce = f"{self._rng.getrandbits(128):032x}"
                    await log_in_to_peer(reader, writer, self._login, nonce)
            except BaseException:
                writer.close()
                raise
        return reader, writer

    async def _keep(self, peer: Peer, on_gone: OnGone) -> None:
        """Stay connected to `peer`; tell when it refuses after it was reached."""
        was_reached, wait_s = False, AGAIN_FIRST_S
        report_at_s = self._clock.monotonic_s() + REPORT_AFTER_S
        while True:
            began_s = self._clock.monotonic_s()
            try:
                reader, writer = await self._connect(peer)
            except (OSError, OverflowError, ValueError) as error:  # the last two: a strange address
                if was_reached and isinstance(error, ConnectionRefusedError):
                    on_gone(peer.broker, peer.epoch)
                if not was_reached and began_s >= report_at_s:
                    report_at_s = math.inf
                    _report_unreachable(peer, error)
            else:
                link = self._links[peer] = PeerLink(reader, writer, began_s)
                try:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._greet(peer, link, was_reached))
                        was_reached = True
                        await _until_closed(link, writer)
                finally:
                    is_new = self._links.pop(peer, None) is not None
                if self._has_held(link):
                    wait_s = AGAIN_FIRST_S
                    if is_new:
                        self.on_lost(peer.broker)
                    continue
            await self._clock.sleep_s(wait_s * (0.5 + self._rng.random() / 2))
            wait_s = min(2 * wait_s, AGAIN_MAX_S)


async def _answers(link: PeerLink) -> bool:
    try:
        async with asyncio.timeout(CONNECT_S):
            await link.ping()
    except (OSError, TimeoutError, Invalid):
        return False
    return True


def _ignore(broker: int) -> None: ...


def _report_unreachable(peer: Peer, error: Exception) -> None:
    logger.warning(
        "broker cannot be reached at its advertised address, nor can its clients: broker=%d "
        "address=%s:%d error=%s; check its --advertise",
        peer.broker,
        peer.host,
        peer.port,
        str(error) or type(error).__name__,
    )


async def _connect(
    peer: Peer, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises `ConnectionRefusedError` only when every address of the host refuses."""
    others: list[OSError] = []
    async with asyncio.timeout(CONNECT_S):
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
        for family, _, _, _, address in addresses:
            try:
                made = await asyncio.open_connection(
                    str(address[0]),
                    peer.port,
                    family=family,
                    ssl=context,
                    server_hostname=None if context is None else peer.host,
                )
            except ConnectionRefusedError:
                continue
            except OSError as error:
                others.append(error)
            else:
                if not _is_with_itself(made[1]):
                    return made
                made[1].close()
    if others:
        raise others[0]
    raise ConnectionRefusedError(f"refused: address={peer.host}:{peer.port}")


def _is_with_itself(writer: asyncio.StreamWriter) -> bool:
    """On one machine a free port can be drawn as our own, and TCP then connects it to itself."""
    return bool(writer.get_extra_info("sockname") == writer.get_extra_info("peername"))


async def _until_closed(link: PeerLink, writer: asyncio.StreamWriter) -> None:
    try:
        await link.run()
    except OSError:
        pass  # reset: as good as closed
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                await writer.wait_closed()
