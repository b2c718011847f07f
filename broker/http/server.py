"""A small HTTP server for a few pages: GET only, one request per connection, everything bounded.

Plain calls on the event loop, like the Kafka side; a page may be answered later. Whatever a client
does, its connection is gone after `WHOLE_S`, its place before if others need it (`places.py`).
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

from broker.http.decisions.hosts import HOSTS, is_own_host
from broker.http.decisions.places import Places
from broker.http.decisions.request import END, HEAD_BYTES_MAX, BadRequest, parse_head

HEAD_S = 5.0
WHOLE_S = 30.0
BACKLOG = 32
PLAIN = "text/plain; charset=utf-8"
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

logger = logging.getLogger(__name__)


class HttpPage(NamedTuple):
    """`policy` is its Content-Security-Policy: without one a browser loads and runs nothing."""

    status: int
    body: bytes
    content_type: str = PLAIN
    policy: str = NOTHING


Answer = Callable[[HttpPage], None]
Route = Callable[[Answer], None]
"""Answers once, at once or later."""
RouteFamily = Callable[[str, Answer], None]
"""The same of all paths with one beginning; it is given the rest."""


class HttpServer:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        routes: Mapping[str, Route],
        families: Mapping[str, RouteFamily] = MappingProxyType({}),
        *,
        probes: Collection[str] = (),
        names: Collection[str] = (),
    ) -> None:
        """`routes` are whole paths; `families` begin with one, up to and with its last slash.

        `probes` are routes that answer at once, under every name, however many others are asked
        for; `names` are those that a `Host` header may have.
        """
        self.loop = loop
        self.routes = routes
        self.families = families
        self.probes = frozenset(probes)
        self.names = names
        self.connections: set[HttpConnection] = set()
        self.places: Places[HttpConnection] = Places()
        self._server: asyncio.Server | None = None

    async def listen(self, bound: socket.socket) -> None:
        self._server = await self.loop.create_server(
            partial(HttpConnection, self), sock=bound, backlog=BACKLOG
        )

    def route_of(self, path: str) -> Route:
        """Raises `BadRequest` where there is none."""
        route = self.routes.get(path)
        if route is not None:
            return route
        for beginning, family in self.families.items():
            if path.startswith(beginning):
                return partial(family, path.removeprefix(beginning))
        raise BadRequest(404, f"there are {', '.join(sorted([*self.routes, *self.families]))}")

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head = bytearray()
        self._is_asked = False

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        leaves = self._server.places.enter(self, peer[0] if isinstance(peer, tuple) else "")
        if leaves is not None:
            leaves.abort()
        self._server.connections.add(self)
        self._timer = self._server.loop.call_later(HEAD_S, self._ask_too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._server.places.leave(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_asked:
            return  # whatever follows the first request is not read
        self._head += data
        end = self._head.find(END)
        if end < 0 and len(self._head) <= HEAD_BYTES_MAX:
            return
        self._is_asked = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._server.loop.call_later(WHOLE_S, self.abort)
        if not 0 <= end <= HEAD_BYTES_MAX:
            self._answer(_trouble(431, "the head is too long"))
        else:
            self._serve(bytes(self._head[:end]))

    def eof_received(self) -> bool:
        return self._is_asked  # a client may be done with asking before it has its answer

    # Answering

    def _serve(self, head: bytes) -> None:
        server = self._server
        try:
            path, host = parse_head(head)
            route = server.route_of(path)
            if path not in server.probes:
                if host is not None and not is_own_host(host, server.names):
                    raise BadRequest(421, f"not a name of this broker; give {HOSTS} those it has")
                if why := server.places.ask(self):
                    raise BadRequest(503, why)
            route(self._answer)
        except BadRequest as error:
            self._answer(_trouble(error.status, str(error)))
        except Exception:  # logged, and ends one connection
            logger.exception("page cannot be made")
            self._answer(_trouble(500, "fault in the broker"))

    def _answer(self, page: HttpPage) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(_encoded(page))
        self._transport.close()

    def _ask_too_late(self) -> None:
        self._is_asked = True
        self._answer(_trouble(408, "no request came"))
        self._timer = self._server.loop.call_later(HEAD_S, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _trouble(status: int, why: str) -> HttpPage:
    return HttpPage(status, f"{why}\n".encode())


def _encoded(page: HttpPage) -> bytes:
    lines = [
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        f"Content-Security-Policy: {page.policy}",
        "Connection: close",
        *(("Allow: GET",) if page.status == HTTPStatus.METHOD_NOT_ALLOWED else ()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + page.body
