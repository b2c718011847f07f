"""Which of the connections that are not read have been left by their clients.

The event loop notices the end of a connection by reading it. One that is paused would be kept, and
count for `max.connections`, until it is read again: a throttled one for as long as it is throttled,
one whose records wait for a thread until that has read them for no use.
The kernel says without reading whether a peer has closed its side, also behind bytes that wait.
"""

import select
from collections.abc import Iterable
from typing import Protocol, TypeVar

_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
"""macOS has no POLLRDHUP: there only connections that are broken both ways are noticed."""


class Descriptor(Protocol):
    @property
    def descriptor(self) -> int | None:
        """Of its socket; None where it has none, or is closed."""


Left = TypeVar("Left", bound=Descriptor)


def left_by_their_clients(connections: Iterable[Left]) -> list[Left]:
    """Some microsecond each; raises nothing."""
    poll = select.poll()
    by_descriptor: dict[int, Left] = {}
    for connection in connections:
        descriptor = connection.descriptor
        if descriptor is not None:
            by_descriptor[descriptor] = connection
            poll.register(descriptor, _GONE)
    if not by_descriptor:
        return []
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(0)]


def has_left(connection: Descriptor) -> bool:
    """Returns whether the client of one connection has left; from any thread."""
    return bool(left_by_their_clients([connection]))
