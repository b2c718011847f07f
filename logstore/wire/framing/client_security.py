"""How connections that go out are secured: TLS around the socket, a login before any request."""

import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from logstore.errors import Retryable
from logstore.wire.framing.login import ClientLogin, log_in

NONCE_BYTES = 18


class Calls(Protocol):
    """A blocking connection (`client.Connection`)."""

    def call(self, key: int, request: Any, version: int | None = None, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    context: ssl.SSLContext | None = None
    """None: plain."""
    login: Callable[[Calls], None] | None = None
    """Called with a new connection before anything is sent by it. Raises what `call` raises, or
    `Refused`.
    """

    def secure(self, peer: socket.socket, host: str, port: int) -> socket.socket:
        """The socket to speak by; it has the timeout of `peer`. Raises `Retryable`."""
        if self.context is None:
            return peer
        try:
            return self.context.wrap_socket(peer, server_hostname=host)
        except OSError as failure:  # of TLS, too
            peer.close()
            reason = getattr(failure, "reason", None) or failure
            raise Retryable(f"no TLS with {host}:{port}: {reason}") from failure


PLAIN = ClientSecurity()


def login_by(login: ClientLogin) -> Callable[[Calls], None]:
    """Returns what logs a new connection in (`ClientSecurity.login`). Raises as `log_in`."""

    def log_connection_in(connection: Calls) -> None:
        steps, response = log_in(login, secrets.token_urlsafe(NONCE_BYTES)), None
        try:
            while True:
                key, version, request = steps.send(response)
                response = connection.call(key, request, version)
        except StopIteration:
            return

    return log_connection_in
