"""Which connections to the pages may stay, so that slow strangers shut no probe out. Pure.

newcomer    has sent no whole request yet. At most `NEWCOMERS_MAX`; one more makes the oldest
            newcomer leave, of the address that has most of them. A probe sends its request
            with its connection, so it is answered long before it is the oldest.
asker       waits for a page. At most `ASKERS_MAX`, of one address `ASKERS_OF_ADDRESS_MAX`, and
            `KEPT_FOR_LOOPBACK` of them for this machine alone. Probes are answered at once and
            take no such place.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from logstore.config.address_overrides import is_loopback, plain_address

NEWCOMERS_MAX = 64
ASKERS_MAX = 32
ASKERS_OF_ADDRESS_MAX = 8
KEPT_FOR_LOOPBACK = 8

C = TypeVar("C", bound=Hashable)


class Places(Generic[C]):
    """Connections of type `C` by the address of their peer."""

    def __init__(self) -> None:
        self._newcomers: dict[C, str] = {}
        self._askers: dict[C, str] = {}

    def __len__(self) -> int:
        return len(self._newcomers) + len(self._askers)

    def enter(self, connection: C, host: str) -> C | None:
        """Give a newcomer its place. Returns the connection that has to leave for it, if any."""
        leaves = self._longest_waiting() if len(self._newcomers) >= NEWCOMERS_MAX else None
        if leaves is not None:
            self.leave(leaves)
        self._newcomers[connection] = _plain(host)
        return leaves

    def ask(self, connection: C) -> str | None:
        """Note that the request of a newcomer is whole. Returns why no page is made for it."""
        host = self._newcomers.pop(connection)
        of_host = sum(1 for other in self._askers.values() if other == host)
        if is_loopback(host):
            room, of_host = ASKERS_MAX, 0
        else:
            room = ASKERS_MAX - KEPT_FOR_LOOPBACK
        if len(self._askers) >= room or of_host >= ASKERS_OF_ADDRESS_MAX:
            return "too many requests at once"
        self._askers[connection] = host
        return None

    def leave(self, connection: C) -> None:
        self._newcomers.pop(connection, None)
        self._askers.pop(connection, None)

    def _longest_waiting(self) -> C:
        counts: dict[str, int] = {}
        for host in self._newcomers.values():
            counts[host] = counts.get(host, 0) + 1
        most = max(counts.values())
        return next(one for one, host in self._newcomers.items() if counts[host] == most)


def _plain(host: str) -> str:
    try:
        return plain_address(host)
    except ValueError:  # a test's pair of sockets has no address
        return host
