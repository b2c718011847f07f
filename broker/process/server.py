"""The broker's front: accepts connections on every listener, and ends in good order.

stop accepting → answer waiting requests → commit accepted batches → send the answers → close
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from broker.answers.broker import Broker
from broker.network.connection import ClientConnection
from broker.network.listeners import BACKLOG, Listener
from broker.tls.secured_listener import SecuredListener

ANSWERS_LEAVE_S = 5.0
NOT_SECURED: Mapping[str, SecuredListener] = MappingProxyType({})


class Server:
    def __init__(
        self,
        broker: Broker,
        listeners: Sequence[Listener],
        secured: Mapping[str, SecuredListener] = NOT_SECURED,
    ) -> None:
        """`secured`: listeners with TLS, by name."""
        self._broker = broker
        self._listeners = listeners
        self._secured = secured
        self._servers: list[asyncio.Server] = []

    async def listen(self) -> None:
        for listener in self._listeners:
            listener.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A copy, since the listener outlives this epoch of the broker.
            connection = partial(self._connect, listener)
            secured = self._secured.get(listener.name)
            server = await self._broker.loop.create_server(
                connection if secured is None else secured.over(connection),
                sock=listener.socket.dup(),
                backlog=BACKLOG,
            )
            self._servers.append(server)

    def _connect(self, listener: Listener) -> ClientConnection:
        connection = ClientConnection(self._broker.clients, listener)
        connection.login = self._broker.logins.begin(listener.protocol, listener.name)
        return connection

    async def stop(self, timeout_s: float) -> bool:
        """Whether everything that was taken is committed."""
        for server in self._servers:
            server.close()
        self._broker.stop()
        committed = await self._broker.log.close(timeout_s)
        await self._broker.clients.close(ANSWERS_LEAVE_S)
        return committed
