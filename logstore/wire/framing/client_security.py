"""TLS of connections that go out."""

import socket
import ssl
from dataclasses import dataclass

from logstore.errors import Retryable


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    context: ssl.SSLContext | None = None
    """None: plain."""

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
