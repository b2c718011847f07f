"""A connection that is not read keeps what had arrived, and takes it in order when read again."""

import asyncio
import ssl
from pathlib import Path

from broker.tls.handshakes import Handshakes
from broker.tls.link import TlsLink
from broker.tls.secured_listener import SecuredListener
from logstore.config.broker import BrokerSettings
from tests.broker.running import DEADLINE_S
from tests.broker.tls.conftest import client_context
from tests.certificates import Authority

SENT = bytes(range(256)) * 1000


class Above:
    """Pauses after each small piece of what it is given."""

    principal = ""

    def __init__(self) -> None:
        self.received = bytearray()
        self.transport: asyncio.Transport | None = None
        self.taken = asyncio.Event()
        self._buffer = memoryview(bytearray(1000))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None: ...

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert self.transport is not None
        self.received += self._buffer[:nbytes]
        self.transport.pause_reading()
        self.taken.set()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def refuse(self, why: str) -> None:
        raise AssertionError(why)


class Wire(asyncio.Transport):
    """The socket: what is written goes to the client."""

    def __init__(self, client: ssl.MemoryBIO) -> None:
        super().__init__()
        self.is_paused = False
        self.wrote = asyncio.Event()
        self._client = client

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._client.write(data)
        self.wrote.set()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return False


def feed(link: TlsLink, data: bytes) -> None:
    link.get_buffer(-1)[: len(data)] = data
    link.buffer_updated(len(data))


def test_bytes_that_had_arrived_before_a_pause_come_after_it(
    authority: Authority, tmp_path: Path
) -> None:
    async def story() -> None:
        handshakes = Handshakes(asyncio.get_running_loop())
        pair = authority.pair().write(tmp_path / "pair.pem")
        text = BrokerSettings({"ssl.keystore.location": str(pair)}).text
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
        above, wire = Above(), Wire(incoming)
        link = SecuredListener("X", text, handshakes).over(lambda: above)()
        link.connection_made(wire)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await _shake(client, outgoing, link, wire)
                for at in range(0, len(SENT), 64_000):
                    client.write(SENT[at : at + 64_000])
                    feed(link, outgoing.read())
                    end = min(at + 64_000, len(SENT))
                    while len(above.received) < end:
                        assert wire.is_paused
                        above.taken.clear()
                        link.resume_reading()
                        await above.taken.wait()
            assert above.received == SENT
        finally:
            link.connection_lost(None)
            handshakes.close()

    asyncio.run(story())


async def _shake(client: ssl.SSLObject, outgoing: ssl.MemoryBIO, link: TlsLink, wire: Wire) -> None:
    while True:
        wire.wrote.clear()
        try:
            client.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            is_done = False
        feed(link, outgoing.read())
        await wire.wrote.wait()
        if is_done:
            return
