"""A connection's TLS: a protocol towards asyncio's transport, a transport towards the connection.

    socket ── asyncio's transport ── TlsLink ── ClientConnection

    waits      until the peer's first record is whole
    shakes     a thread has the session; nothing is read from the peer
    open       plaintext goes straight into the connection's own buffer
    closed

Bytes arrive in one buffer that all links of a listener share: they are opened before the next are
received. A connection that is not read keeps what had arrived. What it writes goes to asyncio's
transport at once, and that one's `pause_writing` is passed on, so that backpressure is the same as
without TLS.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol, cast

from broker.tls.handshakes import HANDSHAKE_S, Handshakes
from broker.tls.session import (
    HANDSHAKE_BYTES_MAX,
    PIECE_BYTES,
    TlsSession,
    is_client_hello,
    whole_records,
)

RECEIVED_BYTES = 128 * 1024
_FIRST_BYTES = 3


class SecuredConnection(Protocol):
    """The connection above: its bytes are plain."""

    principal: str

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def eof_received(self) -> bool: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def refuse(self, why: str) -> None: ...


class LinksShare(Protocol):
    """Shared by all links of a listener (`secured_listener.SecuredListener`)."""

    loop: asyncio.AbstractEventLoop
    handshakes: Handshakes
    received: memoryview

    @property
    def context(self) -> ssl.SSLContext: ...

    def identify(self, certificate: bytes | None, /) -> str: ...


class TlsLink(asyncio.BufferedProtocol, asyncio.Transport):
    __slots__ = (
        "_above",
        "_arrived",
        "_handshake_bytes",
        "_is_closing",
        "_is_delivering",
        "_is_open",
        "_is_paused",
        "_is_shaking",
        "_late",
        "_session",
        "_shared",
        "_transport",
    )

    def __init__(self, shared: LinksShare, above: Callable[[], SecuredConnection]) -> None:
        asyncio.Transport.__init__(self)
        self._shared = shared
        self._above: SecuredConnection | None = above()
        self._transport: asyncio.Transport | None = None
        self._session: TlsSession | None = None
        self._arrived = b""
        """Bytes from the peer that are not opened yet."""
        self._handshake_bytes = 0
        self._is_open = self._is_shaking = self._is_closing = False
        self._is_paused = self._is_delivering = False
        self._late: asyncio.TimerHandle | None = None

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._late = self._shared.loop.call_later(HANDSHAKE_S, self._give_up)
        assert self._above is not None
        self._above.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_handshake()
        self._is_closing = True
        above, transport = self._above, self._transport
        self._above = self._transport = None  # the circle of the three
        self._arrived = b""
        if not self._is_shaking:
            self._session = None
        getattr(transport, "__dict__", {}).pop("_read_ready_cb", None)  # a circle of asyncio's own
        if above is not None:
            above.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared.received

    def buffer_updated(self, nbytes: int) -> None:
        data = self._shared.received[:nbytes]
        if self._is_open:
            self._deliver(data)
        elif not self._is_closing:
            self._arrived += data
            self._shake()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    # The handshake

    def _shake(self) -> None:
        arrived = self._arrived
        if self._is_shaking or len(arrived) < _FIRST_BYTES:
            return
        if self._session is None and not is_client_hello(arrived):
            self._fail(
                "bytes that are not TLS on a TLS listener: the client needs "
                "security.protocol=SSL or SASL_SSL"
            )
            return
        size = whole_records(arrived)
        if not size:
            return
        self._handshake_bytes += size
        if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            self._fail(f"TLS handshake too large: max={HANDSHAKE_BYTES_MAX}")
            return
        if self._session is None:
            self._session = TlsSession(self._shared.context)
        self._arrived = arrived[size:]
        self._is_shaking = True
        self._pause_socket()
        self._shared.handshakes.step(
            self._session,
            arrived[:size],
            is_wanted=self._is_wanted,
            identify=self._shared.identify,
            then=self._stepped,
        )

    def _is_wanted(self) -> bool:
        return not self._is_closing

    def _stepped(self, principal: str | None, why: str) -> None:
        self._is_shaking = False
        session, transport = self._session, self._transport
        if transport is None or session is None or self._is_closing:
            self._session = None
            if transport is not None:
                transport.abort()
            return
        transport.write(session.to_send())
        if why:
            self._fail(f"TLS handshake failed: {why}")
        elif principal is not None:
            self._opened(principal)
        elif not self._is_paused:
            self._resume_socket()

    def _opened(self, principal: str) -> None:
        self._end_handshake()
        if principal and self._above is not None:
            self._above.principal = principal
        self._shared.handshakes.counts["done"] += 1
        self._is_open = True
        self._go_on()

    def _give_up(self) -> None:
        """Silent where nothing came: health checks connect and leave."""
        self._late = None
        self._shared.handshakes.counts["late"] += 1
        if self._handshake_bytes or self._arrived:
            self._fail(f"TLS handshake not done in {HANDSHAKE_S:.0f} s")
        else:
            self.abort()

    def _fail(self, why: str) -> None:
        self._end_handshake()
        self._shared.handshakes.counts["failed"] += 1
        if self._above is not None:
            self._above.refuse(why)
        self.close()

    def _end_handshake(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    # Plaintext for the connection

    def _deliver(self, data: memoryview) -> None:
        """Open `data`, in pieces, as long as the connection takes it; keep the rest."""
        session = self._session
        if session is None or self._is_delivering:
            self._arrived += data
            return
        self._is_delivering = True
        try:
            while (data or session.has_more) and not self._is_closing and not self._is_paused:
                data = self._open(session, data)
        except ssl.SSLError as error:
            self._fail(f"TLS record cannot be read: {error.reason}")
        finally:
            self._is_delivering = False
        if data and not self._is_closing:
            self._arrived += data

    def _open(self, session: TlsSession, data: memoryview) -> memoryview:
        """Fill the connection's buffer once, and tell it. Returns what is left of `data`."""
        above = self._above
        assert above is not None
        buffer = above.get_buffer(-1)
        count = 0
        while count < len(buffer):
            if not session.has_more:
                if not data:
                    break
                session.feed(data[:PIECE_BYTES])
                data = data[PIECE_BYTES:]
            opened = session.open_into(buffer[count:])
            if opened is None:
                above.buffer_updated(count)
                self.close()  # the peer writes no more, and a half-closed connection is of no use
                return data[:0]
            count += opened
        if session.has_to_send:
            self._answer(session.to_send())
        above.buffer_updated(count)  # also of nothing: the buffer goes back to its pool
        return data

    def _answer(self, data: bytes) -> None:
        """Send bytes of TLS itself: few, but to a peer that asks for new handshakes again and
        again.
        """
        self._handshake_bytes += len(data)
        if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            self._fail("TLS handshakes without end")
        elif self._transport is not None:
            self._transport.write(data)

    def _go_on(self) -> None:
        """Bytes that had arrived when reading was paused come first."""
        if self._is_paused or self._is_closing or not self._is_open:
            return
        arrived, self._arrived = self._arrived, b""
        self._deliver(memoryview(arrived))
        if not self._is_paused and not self._is_closing:
            self._resume_socket()

    def _pause_socket(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_socket(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # As the connection's transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport is None

    def is_reading(self) -> bool:
        return not self._is_paused

    def pause_reading(self) -> None:
        self._is_paused = True
        self._pause_socket()

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._is_open:
                self._shared.loop.call_soon(self._go_on)
            elif not self._is_shaking:
                self._resume_socket()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        session, transport = self._session, self._transport
        if transport is None or session is None or self._is_closing or not self._is_open:
            return
        try:
            for sealed in session.seal(data):
                transport.write(sealed)
        except ssl.SSLError:
            self.abort()

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        transport, session = self._transport, self._session
        if transport is None:
            return
        if self._is_shaking or session is None:
            transport.abort() if self._is_shaking else transport.close()
            return
        if self._is_open:
            transport.write(session.shut())
        else:
            transport.write(session.to_send())
        transport.close()

    def abort(self) -> None:
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
