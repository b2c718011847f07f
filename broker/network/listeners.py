"""Where the broker listens, and the address that clients get for it.

    [NAME://]HOST:PORT        NAME tells listeners apart; --advertise names the one it is for

Sockets are bound before anything else, so that a busy port stops the start while nothing has
happened; port 0 takes any free one. Clients get the advertised address of the listener they came
by, else the host it listens on; where that is every address, the one they reached it at.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from logstore.config.flags import DEFAULT_LISTEN
from logstore.config.listener_security import SecurityProtocol
from logstore.errors import Invalid, Refused

DEFAULT_NAME = "PLAINTEXT"
BACKLOG = 512
WILDCARDS = ("0.0.0.0", "::")
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    name: str
    host: str
    port: int


class Reached(Protocol):
    """A connection, as far as addresses go."""

    local_host: str


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket; `port` is the real one."""

    name: str
    host: str
    port: int
    advertised: ListenAddress | None
    socket: socket.socket
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def address_for(self, connection: Reached) -> tuple[str, int]:
        """Host and port that a client of `connection` gets."""
        if self.advertised is not None:
            return self.advertised.host, self.advertised.port
        if self.host in WILDCARDS:
            return connection.local_host, self.port
        return self.host, self.port

    @property
    def public_address(self) -> tuple[str, int]:
        """Host and port of this listener as the broker's row has them."""
        if self.advertised is not None:
            return self.advertised.host, self.advertised.port
        if self.host in WILDCARDS:
            return socket.gethostname(), self.port
        return self.host, self.port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> ListenAddress:
    """Raises `Invalid`."""
    name, scheme, rest = text.rpartition("://")
    host, _, port = rest.rpartition(":")
    if scheme and not name:
        raise Invalid(f"listener without a name before ://: {text!r}")
    if not (port.isascii() and port.isdecimal() and int(port) <= PORT_MAX):
        raise Invalid(f"not an address of the form [NAME://]HOST:PORT: {text!r}")
    host = host.removeprefix("[").removesuffix("]")
    return ListenAddress(name.upper() or DEFAULT_NAME, host or "127.0.0.1", int(port))


def plan_listeners(
    listen: Sequence[str], advertise: Sequence[str]
) -> list[tuple[ListenAddress, ListenAddress | None]]:
    """Each address to listen on, with the one it is known by. Raises `Invalid`."""
    places = [parse_address(text) for text in listen or (DEFAULT_LISTEN,)]
    known = [parse_address(text) for text in advertise]
    names = [place.name for place in places]
    if len(set(names)) < len(names):
        raise Invalid(f"two listeners of one name: {', '.join(names)}; write NAME://HOST:PORT")
    if len(places) == len(known) == 1:
        return [(places[0], known[0])]
    by_name = {address.name: address for address in known}
    if strange := sorted(set(by_name) - set(names)):
        raise Invalid(f"--advertise names no listener of --listen: {', '.join(strange)}")
    return [(place, by_name.get(place.name)) for place in places]


def bind(
    place: ListenAddress,
    advertised: ListenAddress | None,
    flag: str = "--listen",
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
) -> Listener:
    """Bind without listening yet; `flag` is the user's option for it. Raises `Refused`."""
    try:
        family, _, _, _, where = socket.getaddrinfo(
            place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(f"cannot listen on {place.host}:{place.port}: {error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise Refused(
            f"cannot listen on {place.host}:{place.port}: {error.strerror or error}; "
            f"choose another {flag}, or stop what uses the port"
        ) from error
    port = bound.getsockname()[1]
    if advertised is not None and advertised.port == 0:
        advertised = ListenAddress(advertised.name, advertised.host, port)
    return Listener(place.name, place.host, port, advertised, bound, protocol)
